//! What is asked of a server as a whole: which database it is, its settings, and the removal of schemas.

use punctual_core::StoreError;
use sqlx::{Connection, PgConnection};

use super::{error::store_error, options::Options};

/// Identifies the database: the system identifier of the server's cluster, if the role may read it, and the database's
/// OID. A database that is restored from a dump, or created from a template, has another identifier; one in a copy of a
/// whole server has the same.
pub(crate) async fn database(connection: &mut PgConnection) -> sqlx::Result<String> {
    let may_ask = "select has_function_privilege('pg_catalog.pg_control_system()', 'execute')";
    let may_ask: bool = sqlx::query_scalar(may_ask).fetch_one(&mut *connection).await?;
    let of_cluster = if may_ask { "(select system_identifier from pg_control_system())" } else { "0::int8" };
    let ask = format!("select {of_cluster}, (select oid::int8 from pg_database where datname = current_database())");
    let (cluster, database): (i64, i64) = sqlx::query_as(sqlx::AssertSqlSafe(ask)).fetch_one(connection).await?;
    Ok(format!("{cluster:x}-{database:x}"))
}

/// Maximum number of tries to drop a schema after deadlocks.
const DROP_TRIES_MAX: usize = 10;

fn is_deadlock(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "40P01")
}

/// Drops every schema of a database whose name begins with `prefix`, with all its contents. For benchmarks and tests.
pub async fn drop_schemas(options: &Options, prefix: &str) -> Result<(), StoreError> {
    let work = async {
        let mut connection = PgConnection::connect_with(&options.connect).await?;
        let names: Vec<String> =
            sqlx::query_scalar("select nspname::text from pg_namespace where starts_with(nspname::text, $1)")
                .bind(prefix)
                .fetch_all(&mut connection)
                .await?;
        for name in names {
            let drop = format!("drop schema \"{}\" cascade", name.replace('"', "\"\""));
            let mut tries = 0;
            // A session that has just used the schema may still be ending, and lock the tables in another order.
            while let Err(error) = sqlx::raw_sql(sqlx::AssertSqlSafe(drop.clone())).execute(&mut connection).await {
                tries += 1;
                if tries == DROP_TRIES_MAX || !is_deadlock(&error) {
                    return Err(error);
                }
            }
        }
        connection.close().await
    };
    work.await.map_err(|error| store_error(&options.location(), error))
}

/// The server's settings that affect its speed and durability, as text.
pub async fn server_settings(options: &Options) -> Result<String, StoreError> {
    let work = async {
        let mut connection = PgConnection::connect_with(&options.connect).await?;
        let settings: String = sqlx::query_scalar(
            "select string_agg(name || '=' || current_setting(name), ', ' order by name) from pg_settings
             where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'shared_buffers', 'max_wal_size')",
        )
        .fetch_one(&mut connection)
        .await?;
        connection.close().await?;
        Ok(settings)
    };
    work.await.map_err(|error: sqlx::Error| store_error(&options.location(), error))
}
