//! A server in this process.

use crate::errors::{Raise as _, usage};
use crate::keys::Identity;
use crate::task::{Task, Teller};
use howdah::keys::AuthorizedKey;
use howdah::{AuthorizedKeys, Log, Rate, ServerConfig};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A bound server, which serves when its task is run.
#[pyclass(frozen, module = "howdah._howdah")]
pub(crate) struct Server {
    bound: Mutex<Option<howdah::Server>>,
    /// Who hears its lines, when it runs.
    teller: Arc<OnceLock<Teller>>,
    address: SocketAddr,
    public_key: String,
}

#[pymethods]
impl Server {
    /// Of `root`, for the keys of those lines.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python")]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        listen: &str,
        identity: Identity,
        authorized: Vec<String>,
        max_rate_bps: Option<u64>,
    ) -> PyResult<Self> {
        let listen = listen.parse().map_err(|_| {
            let text = format!(
                "listen is an address and a port, as in \"127.0.0.1:0\" or \"[::]:4433\", not {listen:?}"
            );
            usage(py, text)
        })?;
        let keys = authorized.iter().map(|line| {
            line.parse::<AuthorizedKey>()
                .map_err(|e| usage(py, format!("the authorized key {line:?}: {e}")))
        });
        let keys: AuthorizedKeys = keys.collect::<PyResult<_>>()?;
        let public_key = identity.0.public_key().to_string();
        let mut config = ServerConfig::new(root, listen, identity.0, keys);
        config.max_rate = max_rate_bps.map(Rate::from_bits_per_sec);
        let teller: Arc<OnceLock<Teller>> = Arc::default();
        let hears = Arc::clone(&teller);
        config.log = Log::new(move |line| {
            if let Some(teller) = hears.get() {
                teller.mention("info", line.to_owned());
            }
        });
        let server = py.detach(|| howdah::Server::bind(config)).raise(py)?;
        Ok(Self {
            address: server.local_addr(),
            bound: Mutex::new(Some(server)),
            teller,
            public_key,
        })
    }

    /// Address and port that it is bound to.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// The key that it shows.
    #[getter]
    fn public_key(&self) -> &str {
        &self.public_key
    }

    /// Serving, until it is cancelled; once.
    fn task(&self) -> PyResult<Task> {
        let server = self
            .bound
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let server = server.ok_or_else(|| PyRuntimeError::new_err("a server serves once"))?;
        let hears = Arc::clone(&self.teller);
        Ok(Task::new(move |teller, cancel| {
            let _ = hears.set(teller.clone());
            server.run(cancel).map(|()| "null".to_owned())
        }))
    }
}
