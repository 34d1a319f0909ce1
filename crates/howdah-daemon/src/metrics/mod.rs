//! Figures for Prometheus, in its text format.

mod daemon;
mod process;

pub(crate) use daemon::{Metrics, NoticeEnd, Refusal};
pub use process::Process;

use crate::listen::open_tcp;
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::get;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;
use std::io;
use std::net::TcpListener;
use std::thread;

/// Of what [`page`] makes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of histograms of loss, which is a share of packets.
pub const LOSSES: [f64; 9] = [1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.5];

/// All that is registered, as it is now.
pub fn page(registry: &Registry) -> String {
    let mut text = String::new();
    // Nothing but memory could fail.
    let _ = prometheus_text::encode(&mut text, registry);
    text
}

/// Answers `GET /metrics` with that page in a thread of its own, to whoever can reach the socket, until this process ends.
pub fn listen(
    listener: TcpListener,
    page: impl Fn() -> String + Clone + Send + Sync + 'static,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let show = async move || ([(header::CONTENT_TYPE, CONTENT_TYPE)], page()).into_response();
    let app = Router::new().route("/metrics", get(show));
    let work = move || {
        runtime.block_on(async {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                open_tcp(listener, app).await;
            }
        });
    };
    thread::Builder::new().name("metrics".into()).spawn(work)?;
    Ok(())
}
