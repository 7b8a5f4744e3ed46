//! Exports traces to a collector, if the environment variables of OpenTelemetry specify one.

use std::env;

use punctual::{core::Trace, trace};
use tracing::Span;

#[cfg(feature = "otel")]
pub(crate) use self::otlp::Traces;
#[cfg(not(feature = "otel"))]
pub(crate) use self::without::Traces;

/// The trace context that the caller has passed.
pub(crate) fn given() -> Option<Trace> {
    Trace::read(&env::var("TRACEPARENT").ok()?, env::var("TRACESTATE").ok().as_deref())
}

/// The span of a command that enqueues.
pub(crate) fn span() -> Span {
    let span = tracing::info_span!("enqueue", otel.kind = "producer");
    if let Some(parent) = given() {
        trace::adopt(&span, &parent);
    }
    span
}

#[cfg(feature = "otel")]
mod otlp {
    use std::{env, time::Duration};

    use anyhow::{Result, bail};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::SpanExporter;
    use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
    use tracing::{Level, Subscriber, level_filters::LevelFilter};
    use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

    use crate::args::Command;

    /// Timeout for exporting the last spans when the program ends.
    const END_MAX: Duration = Duration::from_secs(5);

    /// The exporter, if a collector is configured.
    pub(crate) struct Traces(Option<SdkTracerProvider>);

    impl Traces {
        /// Starts the exporter if the environment specifies a collector and the command creates spans.
        pub(crate) fn start(command: &Command) -> Self {
            let makes_spans = matches!(
                command,
                Command::Up(_) | Command::Serve(_) | Command::Work(_) | Command::Enqueue(_) | Command::Workflows(_)
            );
            if !makes_spans || !is_wanted() {
                return Self(None);
            }
            // An exporter that cannot start must not stop the command.
            Self(exporter().inspect_err(|error| eprintln!("traces are disabled: {error:#}")).ok().map(provider))
        }

        /// A layer that records the spans of Punctual, but not those of other crates, such as the exporter's own.
        pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
        where
            S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
        {
            let tracer = self.0.as_ref()?.tracer("punctual");
            let ours = Targets::new()
                .with_default(LevelFilter::OFF)
                .with_target("punctual", Level::INFO)
                .with_target("punctual_server", Level::DEBUG);
            let layer = tracing_opentelemetry::layer().with_tracer(tracer);
            Some(layer.with_location(false).with_threads(false).with_target(false).with_filter(ours))
        }

        /// Exports the remaining spans.
        pub(crate) fn end(self) {
            if let Some(Err(error)) = self.0.map(|provider| provider.shutdown_with_timeout(END_MAX)) {
                eprintln!("the last traces may not have reached their collector: {error}");
            }
        }
    }

    fn variable(name: &str) -> Option<String> {
        env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn is_wanted() -> bool {
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|exporter| exporter == "none");
        !is_off
            && (variable("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")))
                .is_some()
    }

    fn exporter() -> Result<SpanExporter> {
        if let Some(other) = variable("OTEL_TRACES_EXPORTER").filter(|exporter| exporter != "otlp") {
            bail!("OTEL_TRACES_EXPORTER: unknown exporter `{other}`: expected otlp or none");
        }
        let protocol =
            variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(other) = protocol.filter(|protocol| protocol != "http/protobuf") {
            bail!("OTEL_EXPORTER_OTLP_PROTOCOL: unsupported protocol `{other}`: expected http/protobuf (port 4318)");
        }
        // The HTTP client needs a provider, even without TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(SpanExporter::builder().with_http().build()?)
    }

    fn provider(exporter: SpanExporter) -> SdkTracerProvider {
        let resource = Resource::builder();
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|attributes| attributes.contains("service.name="));
        let resource = if is_named { resource } else { resource.with_service_name("punctual") };
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build()
    }
}

#[cfg(not(feature = "otel"))]
mod without {
    use tracing_subscriber::layer::Identity;

    use crate::args::Command;

    /// No traces.
    pub(crate) struct Traces;

    impl Traces {
        pub(crate) const fn start(_: &Command) -> Self {
            Self
        }

        pub(crate) const fn layer(&self) -> Option<Identity> {
            None
        }

        pub(crate) const fn end(self) {}
    }
}
