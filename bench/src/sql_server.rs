//! The databases of a benchmark on a SQL Server.

pub(crate) use self::server::SqlServer;

#[cfg(feature = "sqlserver")]
mod server {
    use anyhow::{Context, Result};
    use punctual::sqlserver::Options;

    /// A server on which databases can be created.
    #[derive(Debug)]
    pub(crate) struct SqlServer(Box<Options>);

    impl SqlServer {
        /// Connects to the server of `store`; also returns the settings of its new databases.
        pub(crate) async fn connect(store: &str) -> Result<(Self, String)> {
            let options: Options = store.parse()?;
            let mut client = options.connect().await.context("cannot reach the server")?;
            // New databases get the settings of the given one.
            let settings = client
                .simple_query(
                    "select delayed_durability_desc, recovery_model_desc, is_read_committed_snapshot_on \
                     from sys.databases where name = 'model'",
                )
                .await?
                .into_row()
                .await?;
            let settings = settings.map_or_else(String::new, |row| {
                let text = |column| row.try_get::<&str, _>(column).ok().flatten().unwrap_or("unknown").to_lowercase();
                let snapshot = row.try_get::<bool, _>(2).ok().flatten().is_some_and(|on| on);
                format!("delayed_durability={}, recovery={}, read_committed_snapshot={snapshot}", text(0), text(1))
            });
            Ok((Self(Box::new(options)), settings))
        }

        /// Creates a database.
        pub(crate) async fn create(&self, database: &str) -> Result<()> {
            self.0.run(&format!("create database {database}")).await.with_context(|| {
                format!("cannot make the database {database}; the role needs the permission to create databases")
            })
        }

        /// Drops a database.
        pub(crate) async fn remove(&self, database: &str) -> Result<()> {
            let dropped = self.0.drop_database(database).await;
            dropped.with_context(|| format!("cannot drop the database {database}"))
        }
    }
}

#[cfg(not(feature = "sqlserver"))]
mod server {
    use anyhow::{Result, bail};

    /// No build without the feature has one.
    #[derive(Debug)]
    pub(crate) enum SqlServer {}

    impl SqlServer {
        pub(crate) async fn connect(_: &str) -> Result<(Self, String)> {
            bail!("this build does not support SQL Server; build it with the feature `sqlserver`")
        }

        pub(crate) async fn create(&self, _: &str) -> Result<()> {
            match *self {}
        }

        pub(crate) async fn remove(&self, _: &str) -> Result<()> {
            match *self {}
        }
    }
}
