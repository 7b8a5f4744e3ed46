//! `punctual bench`: benchmarks, in a separate database or schema.

use anyhow::{Context, Result};
use punctual_bench::{Settings, StoreFactory};
use serde_json::Value;

use crate::{
    args::{Bench, BenchScenario, Cli},
    config::Config,
    format,
    output::{print_json, progress_bar},
    table::{Cell, Table},
};

pub(crate) async fn run(cli: &Cli, config: &Config, args: &Bench) -> Result<()> {
    let url = config.store_url(cli);
    let BenchScenario::Measure(scenario) = args.scenario else {
        return punctual_bench::victim(&url).await;
    };
    let settings = Settings {
        jobs: args.jobs,
        concurrency: args.concurrency,
        seconds: args.seconds,
        program: std::env::current_exe().context("cannot find this program's own file")?,
    };
    let stores = StoreFactory::new(&url, "bench").await?;
    let bar = progress_bar(cli.json);
    let on_progress = |what: &str, done: u64, of: u64| {
        bar.set_message(what.to_owned());
        bar.set_length(of);
        bar.set_position(done);
    };
    let measured = punctual_bench::run(scenario, &stores, &settings, &on_progress).await;
    bar.finish_and_clear();
    stores.clear().await?;
    let fields = measured?;
    if cli.json {
        return print_json(&fields);
    }
    let mut table = Table::new(["FIELD", "VALUE"]);
    for (field, value) in &fields {
        match value {
            Value::Object(parts) => {
                for (part, value) in parts {
                    table.row([Cell::new(format!("{field}.{part}")), Cell::right(plain(value))]);
                }
            }
            value => table.row([Cell::new(field.clone()), Cell::right(plain(value))]),
        }
    }
    table.print();
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64().unwrap_or_default() {
            whole if whole.fract() == 0.0 && whole >= 0.0 => format::number(whole as u64),
            fraction => format!("{fraction:.3}"),
        },
        other => other.to_string(),
    }
}
