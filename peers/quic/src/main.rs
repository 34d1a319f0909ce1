//! Moves made-up bytes over QUIC as the library quinn has it, to measure it.
//!
//! ```text
//! quic-measure sink ADDRESS:PORT MTU WINDOW cubic|bbr
//! quic-measure source ADDRESS:PORT MTU WINDOW cubic|bbr seconds|bytes AMOUNT
//! ```
//!
//! MTU is that of the path, WINDOW the bytes that may be under way. Each end prints one JSON object when it
//! is done; the sink ends with its one connection. The certificate is made for the run and nobody checks it:
//! for measurement on networks of one's own. One thread carries each end, as in quinn's own `perf`.

use bytes::Bytes;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ReadError, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use socket2::{Domain, Socket, Type};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: quic-measure sink ADDRESS:PORT MTU WINDOW cubic|bbr
       quic-measure source ADDRESS:PORT MTU WINDOW cubic|bbr seconds|bytes AMOUNT";
const ALPN: &[u8] = b"measure";
/// Headers of IPv4 and UDP.
const HEADER_BYTES: u16 = 28;
const BLOCK_BYTES: usize = 1 << 20;
/// Asked for; the kernel gives what its limits allow.
const SOCKET_BUFFER_BYTES: usize = 64 << 20;
/// How long a sink that is done waits for the source to say so.
const PARTING: Duration = Duration::from_millis(500);
/// And a source for the sink: its reset waits for room in the congestion window and may be lost.
const RESET_ARRIVES: Duration = Duration::from_secs(4);
/// So many packets quinn joins at most for one call of the kernel (0.11.12).
const JOINED_PACKETS: u32 = 10;
/// And so many bytes a datagram may have before the kernel cuts it (UDP over IPv4).
const MOST_JOINED_BYTES: u32 = 65_507;
/// What no MTU may be below (RFC 9000, 14).
const LEAST_PAYLOAD_BYTES: u16 = 1200;

type Failure = Box<dyn Error + Send + Sync>;

/// What both ends are told.
struct Settings {
    address: SocketAddr,
    mtu: u16,
    window_bytes: u32,
    congestion: String,
}

/// How much the source sends.
enum Amount {
    Seconds(f64),
    Bytes(u64),
}

enum Role {
    Sink,
    Source(Amount),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((role, settings)) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match role {
                Role::Sink => sink(&settings).await,
                Role::Source(amount) => source(&settings, amount).await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quic-measure: {}", with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// quinn's "connection lost" says why only in its source.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        said = format!("{said}: {inner}");
        cause = inner.source();
    }
    said
}

fn parse(arguments: &[String]) -> Option<(Role, Settings)> {
    let (role, rest) = arguments.split_first()?;
    let [address, mtu, window, congestion, rest @ ..] = rest else {
        return None;
    };
    let role = match (role.as_str(), rest) {
        ("sink", []) => Role::Sink,
        ("source", [kind, amount]) if kind == "seconds" => {
            let seconds: f64 = amount.parse().ok()?;
            Role::Source(Amount::Seconds(seconds))
        }
        ("source", [kind, amount]) if kind == "bytes" => {
            Role::Source(Amount::Bytes(amount.parse().ok()?))
        }
        _ => return None,
    };
    let settings = Settings {
        address: address.parse().ok()?,
        mtu: mtu.parse().ok()?,
        window_bytes: window.parse().ok()?,
        congestion: congestion.clone(),
    };
    ["cubic", "bbr"]
        .contains(&settings.congestion.as_str())
        .then_some((role, settings))
}

impl Settings {
    fn payload_bytes(&self) -> u16 {
        self.mtu
            .saturating_sub(HEADER_BYTES)
            .max(LEAST_PAYLOAD_BYTES)
    }

    fn transport(&self) -> Arc<TransportConfig> {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = if self.congestion == "bbr" {
            Arc::new(BbrConfig::default())
        } else {
            Arc::new(CubicConfig::default())
        };
        let mut config = TransportConfig::default();
        config
            .congestion_controller_factory(factory)
            .stream_receive_window(VarInt::from_u32(self.window_bytes))
            .receive_window(VarInt::from_u32(self.window_bytes))
            .send_window(u64::from(self.window_bytes))
            // The path's MTU is known. Without this, losses of a full queue look like a black hole, and all
            // packets shrink to 1200 bytes.
            .initial_mtu(self.payload_bytes())
            .min_mtu(self.payload_bytes())
            // Ten packets of 9000 bytes are more than the kernel takes at once. quinn ignores its refusal
            // (EMSGSIZE), as for probes of the MTU, so that they would be lost.
            .enable_segmentation_offload(
                JOINED_PACKETS * u32::from(self.payload_bytes()) <= MOST_JOINED_BYTES,
            )
            .mtu_discovery_config(None);
        Arc::new(config)
    }

    fn endpoint_config(&self) -> Result<EndpointConfig, Failure> {
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(self.payload_bytes())?;
        Ok(config)
    }
}

/// Of the UDP socket, as the kernel says: for sending and for receiving.
type Buffers = [usize; 2];

fn socket(address: SocketAddr) -> Result<(UdpSocket, Buffers), Failure> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    let buffers = [socket.send_buffer_size()?, socket.recv_buffer_size()?];
    Ok((socket.into(), buffers))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

async fn sink(settings: &Settings) -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed(["measure".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    server.transport_config(settings.transport());
    let (socket, buffers) = socket(settings.address)?;
    let endpoint = Endpoint::new(
        settings.endpoint_config()?,
        Some(server),
        socket,
        Arc::new(TokioRuntime),
    )?;
    let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
    let connection = incoming.await?;
    let mut stream = connection.accept_uni().await?;
    let start = Instant::now();
    let mut bytes = 0;
    loop {
        match stream.read_chunk(BLOCK_BYTES, true).await {
            Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
            // The source resets the stream when its time is over. A queue that has just overflowed may hold the
            // reset back until after its close.
            Ok(None)
            | Err(
                ReadError::Reset(_)
                | ReadError::ConnectionLost(ConnectionError::ApplicationClosed(_)),
            ) => break,
            Err(error) => return Err(error.into()),
        }
    }
    print(bytes, start.elapsed(), settings, buffers, &connection);
    // The source closes when it knows that all has arrived, or is told so by this.
    let _ = tokio::time::timeout(PARTING, connection.closed()).await;
    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

async fn source(settings: &Settings, amount: Amount) -> Result<(), Failure> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider())))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(settings.transport());
    let (socket, buffers) = socket((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let endpoint = Endpoint::new(
        settings.endpoint_config()?,
        None,
        socket,
        Arc::new(TokioRuntime),
    )?;
    let start = Instant::now();
    let connecting = endpoint.connect_with(client, settings.address, "measure")?;
    let connection = connecting.await?;
    let mut stream = connection.open_uni().await?;
    let block = Bytes::from(vec![0x5a; BLOCK_BYTES]);
    let mut bytes = 0_u64;
    let is_timed = matches!(amount, Amount::Seconds(_));
    match amount {
        Amount::Bytes(all) => {
            while bytes < all {
                let size =
                    usize::try_from(all - bytes).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES));
                stream.write_chunk(block.slice(..size)).await?;
                bytes += size as u64;
            }
            stream.finish()?;
            // Until everything is acknowledged.
            stream.stopped().await?;
        }
        Amount::Seconds(seconds) => {
            let end = tokio::time::Instant::from_std(start)
                + Duration::try_from_secs_f64(seconds).unwrap_or_default();
            while let Ok(written) =
                tokio::time::timeout_at(end, stream.write_chunk(block.clone())).await
            {
                written?;
                bytes += BLOCK_BYTES as u64;
            }
            stream.reset(VarInt::from_u32(0))?;
        }
    }
    print(bytes, start.elapsed(), settings, buffers, &connection);
    if is_timed {
        // A close is sent once and may be lost, a reset is repeated until it arrives; so the sink closes.
        let _ = tokio::time::timeout(RESET_ARRIVES, connection.closed()).await;
    }
    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

fn print(
    bytes: u64,
    took: Duration,
    settings: &Settings,
    buffers: Buffers,
    connection: &Connection,
) {
    let stats = connection.stats();
    println!(
        "{{\"bytes\": {bytes}, \"seconds\": {:.6}, \"congestion\": \"{}\", \"sent_bytes\": {}, \
         \"lost_bytes\": {}, \"lost_packets\": {}, \"mtu\": {}, \"window_bytes\": {}, \"rtt_ms\": {:.3}, \
         \"send_buffer_bytes\": {}, \"receive_buffer_bytes\": {}}}",
        took.as_secs_f64(),
        settings.congestion,
        stats.udp_tx.bytes,
        stats.path.lost_bytes,
        stats.path.lost_packets,
        stats.path.current_mtu,
        settings.window_bytes,
        stats.path.rtt.as_secs_f64() * 1e3,
        buffers[0],
        buffers[1],
    );
}

/// Trusts whoever answers: the network is our own.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
