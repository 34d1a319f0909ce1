//! Who comes in: so many at a time, and none who does not say what it wants.

mod crowd;
mod patient;

pub(crate) use crowd::network;

use crate::tls::plain;
use axum::Router;
use crowd::{Crowd, Guest};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use patient::{PATIENCE, Patient};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections of ours. More wait in the kernel.
const OURS: usize = 512;
/// Those over TCP.
const OVER_TCP: usize = 256;
/// Those of one network, where others than this machine come in.
const OF_ONE_NETWORK: usize = 64;
/// Those who have not proved yet that they speak TLS.
const HANDSHAKES: usize = 64;
/// Of one network; more are closed.
const HANDSHAKES_OF_ONE_NETWORK: usize = 8;
/// Those of others, who are only told that they are wrong here. More are closed.
const OTHERS: usize = 8;
/// How long a request may take to say what it is, and a connection be without one.
const SILENCE: Duration = Duration::from_secs(5);
/// Of a request's head.
const HEAD: usize = 64 << 10;
/// Until descriptors may be there again.
const BREATH: Duration = Duration::from_millis(50);

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// A process of that user, as the kernel says.
    User(Option<u32>),
    /// Anybody on this machine, or, with TLS, on any.
    Tcp {
        /// From where.
        from: SocketAddr,
        /// As which he has reached us.
        at: SocketAddr,
    },
}

impl Peer {
    /// Whether he is let in without a token.
    pub(crate) fn is_ours(self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(self, Self::User(Some(user)) if user == own || user == 0)
    }
}

/// Lets those in who come over TCP, for ever.
pub(crate) async fn open_tcp(listener: TcpListener, app: Router) {
    let places = Arc::new(Semaphore::new(OVER_TCP));
    loop {
        // First a place: more wait in the kernel.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, from)) => {
                if let Ok(at) = stream.local_addr() {
                    let peer = Peer::Tcp { from, at };
                    tokio::spawn(speak(stream, peer, app.clone(), place));
                }
            }
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}

/// Lets those in who come over TCP and speak TLS, for ever.
pub(crate) async fn open_tls(listener: TcpListener, acceptor: TlsAcceptor, app: Router) {
    let places = Arc::new(Semaphore::new(OVER_TCP));
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let beginning = Crowd::new(HANDSHAKES_OF_ONE_NETWORK);
    let there = Crowd::new(OF_ONE_NETWORK);
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let from = plain(from);
        // Whoever comes too often is closed; others do not wait for him.
        let (Some(begins), Some(guest), Ok(at)) = (
            beginning.enter(from.ip()),
            there.enter(from.ip()),
            stream.local_addr(),
        ) else {
            continue;
        };
        let at = plain(at);
        let (acceptor, app, places) = (acceptor.clone(), app.clone(), Arc::clone(&places));
        tokio::spawn(async move {
            let shaken = tokio::time::timeout(SILENCE, shake_hands(stream, acceptor)).await;
            let place = places.try_acquire_owned();
            drop::<(OwnedSemaphorePermit, Guest)>((handshake, begins));
            if let (Ok(Ok(stream)), Ok(place)) = (shaken, place) {
                speak(stream, Peer::Tcp { from, at }, app, place).await;
            }
            drop(guest);
        });
    }
}

/// Who speaks HTTP without TLS is told so, and nothing that he said is used.
async fn shake_hands(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
) -> io::Result<TlsStream<TcpStream>> {
    const HANDSHAKE: u8 = 22;
    const PLAIN: &[u8] =
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n\
        {\"error\":{\"kind\":\"usage\",\"message\":\"this address speaks TLS: https://\"}}";
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        // What he still says would have the kernel throw our answer away.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        return Err(io::ErrorKind::InvalidData.into());
    }
    acceptor.accept(stream).await
}

/// Lets clients in, for ever.
pub(crate) async fn open(listener: UnixListener, app: Router) {
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
