//! `punctual tokens`: manages API tokens.

use anyhow::Result;
use punctual::admin::Access;
use serde_json::json;

use crate::{
    args::{Cli, TokensCommand},
    config::Config,
    exit::NotFound,
    format::{self, DIM},
    output::{print_json, print_result},
    table::{Cell, Table},
    target,
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &TokensCommand) -> Result<()> {
    let admin = target::administer(cli, config).await?;
    match args {
        TokensCommand::Create { name, roles, expires } => {
            let created = admin.create_token(name, roles, expires.map(|span| span.0)).await?;
            if cli.json {
                return print_json(&created);
            }
            anstream::eprintln!("{DIM}{}: save it now: it will not be shown again{DIM:#}", created.token.id);
            println!("{}", created.secret);
        }
        TokensCommand::List => {
            let tokens = admin.tokens().await?;
            if cli.json {
                return print_json(&json!({ "tokens": tokens }));
            }
            if tokens.is_empty() {
                let how = match admin.access().await? {
                    Access::Open => "no tokens were created yet: the store is open",
                    Access::Closed { .. } => "no valid tokens: the store stays closed",
                };
                anstream::println!("{DIM}{how}; create one with punctual tokens create NAME --role admin{DIM:#}");
                return Ok(());
            }
            let now = admin.now();
            let mut table = Table::new(["ID", "NAME", "ROLES", "CREATED", "BY", "EXPIRES"]);
            for token in tokens {
                let roles: Vec<_> = token.roles.iter().map(|role| role.as_str()).collect();
                let expires = token.expires_at.map_or_else(|| "never".to_owned(), |at| format::relative(at, now));
                table.row([
                    Cell::new(token.id.to_string()),
                    Cell::new(token.name),
                    Cell::new(roles.join(", ")),
                    Cell::right(format::relative(token.created_at, now)),
                    Cell::new(token.created_by),
                    Cell::right(expires),
                ]);
            }
            table.print();
        }
        TokensCommand::Revoke { id, allow_last_admin } => {
            if !admin.revoke_token(*id, *allow_last_admin).await? {
                return Err(NotFound(format!("token {id} not found; `punctual tokens list` lists all")).into());
            }
            let text = format!("{id} is revoked; servers refuse it within a second");
            print_result(cli.json, &json!({"token": id, "revoked": true}), &text)?;
        }
        TokensCommand::Open => {
            admin.open_access().await?;
            let text = "the store is open: servers on loopback addresses accept requests without a token until the \
                        next one is created";
            print_result(cli.json, &json!({"access": "open"}), text)?;
        }
    }
    Ok(())
}
