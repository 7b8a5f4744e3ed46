use std::{collections::BTreeSet, time::Duration};

use punctual_core::{IdempotentRequest, Role, Token, TokenId, limits};

use crate::Fixture;

fn token(fx: &Fixture, number: u8) -> Token {
    Token {
        id: TokenId::from_bits(u128::from(number)),
        name: format!("token {number}"),
        roles: BTreeSet::from([Role::Read, Role::Work]),
        hash: [number; 32],
        session_of: None,
        created_by: "ada".into(),
        created_at: fx.now(),
        expires_at: None,
    }
}

pub async fn tokens_are_kept_until_they_are_removed_with_their_sessions(fx: &Fixture) {
    let hour = Duration::from_secs(3_600);
    let session = |number, of: &Token| Token {
        session_of: Some(of.id),
        expires_at: Some(fx.now().after(hour)),
        ..token(fx, number)
    };
    let (one, other) = (token(fx, 1), token(fx, 2));
    let all = [one.clone(), other.clone(), session(3, &one), session(4, &one), session(5, &other)];
    for token in all.clone() {
        fx.store.add_token(token).await.unwrap();
    }
    assert_eq!(fx.store.tokens().await.unwrap(), all);
    assert!(fx.store.remove_token(one.id).await.unwrap());
    assert!(!fx.store.remove_token(one.id).await.unwrap());
    assert!(!fx.store.remove_token(TokenId::from_bits(9)).await.unwrap(), "there is no such token");
    let ended = Token { expires_at: Some(fx.now()), ..one };
    assert_eq!(fx.store.tokens().await.unwrap(), [ended.clone(), all[1].clone(), all[4].clone()]);
    let another = session(6, &other);
    fx.store.add_token(another.clone()).await.unwrap();
    assert!(fx.store.remove_token(another.id).await.unwrap(), "a session ends alone");
    assert_eq!(fx.store.tokens().await.unwrap(), [ended, all[1].clone(), all[4].clone()]);
    fx.pass(3_600);
    fx.store.prune(hour, 100).await.unwrap();
    assert_eq!(fx.store.tokens().await.unwrap(), [other], "its session is out of time");
}

pub async fn a_store_that_had_a_token_is_closed_until_its_tokens_are_cleared(fx: &Fixture) {
    let hour = Duration::from_secs(3_600);
    let expiring = Token { expires_at: Some(fx.now().after(hour)), ..token(fx, 1) };
    let session = Token { session_of: Some(expiring.id), ..Token { id: TokenId::from_bits(3), ..token(fx, 3) } };
    let session = Token { expires_at: expiring.expires_at, ..session };
    fx.store.add_token(expiring.clone()).await.unwrap();
    fx.store.add_token(session).await.unwrap();
    fx.store.clear_tokens().await.unwrap();
    assert_eq!(fx.store.tokens().await.unwrap().len(), 2, "a token is valid");
    fx.pass(3_600);
    fx.store.prune(hour, 100).await.unwrap();
    assert_eq!(fx.store.tokens().await.unwrap(), [expiring], "the last one stays, expired");
    // A later token replaces it as the last one, even when it is revoked.
    let later = token(fx, 2);
    fx.store.add_token(later.clone()).await.unwrap();
    assert!(fx.store.remove_token(later.id).await.unwrap());
    fx.store.prune(hour, 100).await.unwrap();
    let revoked = Token { expires_at: Some(fx.now()), ..later };
    assert_eq!(fx.store.tokens().await.unwrap(), [revoked]);
    fx.store.clear_tokens().await.unwrap();
    assert_eq!(fx.store.tokens().await.unwrap(), []);
}

pub async fn a_request_is_remembered_as_it_came_first(fx: &Fixture) {
    let first = fx.store.idempotent_request("a".into(), [1; 32], u64::MAX).await.unwrap();
    assert_eq!(first, IdempotentRequest { fingerprint: [1; 32], at: fx.now(), seed: u64::MAX });
    fx.pass(1);
    assert_eq!(fx.store.idempotent_request("a".into(), [2; 32], 7).await.unwrap(), first);
    let other = fx.store.idempotent_request("b".into(), [2; 32], 7).await.unwrap();
    assert_eq!((other.fingerprint, other.seed), ([2; 32], 7));
    fx.pass(limits::IDEMPOTENCY_KEPT.as_secs());
    fx.store.prune(Duration::from_secs(3_600), 100).await.unwrap();
    assert_eq!(fx.store.idempotent_request("a".into(), [3; 32], 8).await.unwrap().seed, 8, "it was forgotten");
    assert_eq!(fx.store.idempotent_request("b".into(), [3; 32], 8).await.unwrap(), other);
}
