//! Who comes in: so many at a time, and none who does not say what it wants.

use super::Peer;
use super::patient::{PATIENCE, Patient};
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of ours. More wait in the kernel.
const OURS: usize = 512;
/// Those over TCP.
const OVER_TCP: usize = 256;
/// Those of others, who are only told that they are wrong here. More are closed.
const OTHERS: usize = 8;
/// How long a request may take to say what it is, and a connection be without one.
const SILENCE: Duration = Duration::from_secs(5);
/// Of a request's head.
const HEAD: usize = 64 << 10;
/// Until descriptors may be there again.
const BREATH: Duration = Duration::from_millis(50);

/// Lets those in who come over TCP, for ever.
pub(crate) async fn open_tcp(listener: TcpListener, app: Router) {
    let places = Arc::new(Semaphore::new(OVER_TCP));
    loop {
        // First a place: more wait in the kernel.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(speak(stream, Peer::Tcp, app.clone(), place));
            }
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}

/// Lets clients in, for ever.
pub(super) async fn open(listener: UnixListener, app: Router) {
    let (ours, others) = (
        Arc::new(Semaphore::new(OURS)),
        Arc::new(Semaphore::new(OTHERS)),
    );
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let peer = Peer::User(stream.peer_cred().ok().map(|cred| cred.uid()));
        let place = if peer.is_ours() {
            Arc::clone(&ours).acquire_owned().await.ok()
        } else {
            Arc::clone(&others).try_acquire_owned().ok()
        };
        if let Some(place) = place {
            tokio::spawn(speak(stream, peer, app.clone(), place));
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    app: Router,
    place: OwnedSemaphorePermit,
) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        app.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream, PATIENCE)), service);
    // What ends a connection is its client's affair.
    let _ = connection.await;
    drop(place);
}
