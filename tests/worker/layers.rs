//! Layers around handlers and around the enqueue of jobs.

use std::sync::{Arc, Mutex};

use punctual::{
    Context, Draft, Error, Failure, HandlerResult, Next, Status, Worker, Workflow, sqlite::rusqlite::Connection,
};
use punctual_tests::TestStore;

#[tokio::test]
async fn layers_surround_every_handler_in_the_order_in_which_they_are_written() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let steps = Arc::new(Mutex::new(Vec::new()));
    let layer = |name: &'static str| {
        let steps = steps.clone();
        move |ctx: Context, next: Next| {
            let steps = steps.clone();
            async move {
                steps.lock().unwrap().push(format!("{name} begins"));
                let result = next.run(ctx).await;
                steps.lock().unwrap().push(format!("{name} ends, succeeded: {}", result.is_ok()));
                result
            }
        }
    };
    let worker = Worker::builder(punctual.clone())
        .layer(layer("outer"))
        .handler("fails", |_: Context| async { Err(Failure::permanent("as planned")) })
        .handler("works", |_: Context| async { Ok(None) })
        // A layer applies to handlers that were registered before it, too.
        .layer(layer("inner"))
        .manual()
        .unwrap();
    for (name, succeeded) in [("works", true), ("fails", false)] {
        punctual.enqueue(Draft::new(name, &())).await.unwrap();
        worker.run_all().await.unwrap();
        let expected = [
            "outer begins".to_owned(),
            "inner begins".to_owned(),
            format!("inner ends, succeeded: {succeeded}"),
            format!("outer ends, succeeded: {succeeded}"),
        ];
        assert_eq!(std::mem::take(&mut *steps.lock().unwrap()), expected);
    }
}

#[tokio::test]
async fn a_layer_may_decide_without_its_handler_and_its_panic_is_a_failure() {
    async fn refuse(ctx: Context, next: Next) -> HandlerResult {
        match ctx.claim().job.spec.user_id.as_deref() {
            Some("unknown") => Err(Failure::permanent("no such tenant")),
            Some(user) => panic!("{user}"),
            None => next.run(ctx).await,
        }
    }
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let handler = |_: Context| async { Ok(None) };
    let worker = Worker::builder(punctual.clone()).handler("x", handler).layer(refuse).manual().unwrap();
    let draft = || Draft::new("x", &()).max_attempts(1);
    for (draft, status, error) in [
        (draft(), Status::Succeeded, None),
        (draft().user("unknown"), Status::Dead, Some("no such tenant")),
        (draft().user("ada"), Status::Dead, Some("the handler panicked: ada")),
    ] {
        let id = punctual.enqueue(draft).await.unwrap().id;
        worker.run_all().await.unwrap();
        let done = punctual.job(id).await.unwrap();
        assert_eq!((done.status, done.error.map(|error| error.message).as_deref()), (status, error));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_around_the_enqueue_sees_every_job_on_every_way() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await.layer(|draft, next| next.run(draft.user("acme").tag("outer")));
    let punctual = punctual.layer(|draft, next| next.run(draft.tag("inner")));
    let one = punctual.enqueue(Draft::new("x", &1)).await.unwrap().id;
    let batch = punctual.enqueue_all([Draft::new("x", &2), Draft::new("x", &3)]).await.unwrap();
    let connection = Connection::open(test_store.file()).unwrap();
    let within = punctual.enqueue_in(&connection, Draft::new("x", &4)).unwrap().id;
    let mut workflow = Workflow::new("w");
    workflow.job("a", Draft::new("x", &5));
    workflow.on_complete(Draft::new("x", &6));
    punctual.submit(workflow).await.unwrap();
    let mut jobs = vec![one, batch[0].id, batch[1].id, within];
    let worker = Worker::builder(punctual.clone())
        // What a handler enqueues passes through the layers of its worker's client.
        .handler("x", |ctx: Context| async move {
            if ctx.claim().job.spec.payload.as_str() == "1" {
                ctx.punctual().enqueue(Draft::new("x", &7)).await?;
            }
            Ok(None)
        })
        .manual()
        .unwrap();
    jobs.extend(worker.run_all().await.unwrap().into_iter().map(|ran| ran.id));
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), 7);
    for id in jobs {
        let spec = punctual.job(id).await.unwrap().spec;
        assert_eq!(
            (spec.user_id.as_deref(), spec.options.tags),
            (Some("acme"), vec!["outer".to_owned(), "inner".to_owned()])
        );
    }
}

#[tokio::test]
async fn a_layer_around_the_enqueue_may_refuse_a_job_and_sees_what_is_refused() {
    let test_store = TestStore::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let punctual = test_store.connect().await.layer(move |draft, next| {
        let name = draft.spec().name.clone();
        let accepted = next.run(draft);
        log.lock().unwrap().push((name, accepted.is_ok()));
        accepted
    });
    let punctual = punctual.layer(|draft, next| match draft.spec().queue.as_str() {
        "closed" => Err(punctual::core::Invalid::new("queue", "closed for maintenance")),
        _ => next.run(draft),
    });
    let refused = punctual.enqueue(Draft::new("a", &()).queue("closed")).await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid(invalid) if invalid.problem == "closed for maintenance"), "{refused}");
    punctual.enqueue(Draft::new("b", &()).priority(11)).await.unwrap_err();
    punctual.enqueue(Draft::new("c", &())).await.unwrap();
    let expected = [("a".to_owned(), false), ("b".to_owned(), false), ("c".to_owned(), true)];
    assert_eq!(*seen.lock().unwrap(), expected);
}
