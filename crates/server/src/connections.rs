//! Connections on which the token was not seen yet. Anybody on this machine can open those: they are few, and have little
//! time for each request, so that they cannot keep out the owner, whose connections have neither limit.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

/// Connections without the token at once; for a new one the oldest is closed.
const MOST_UNKNOWN: usize = 128;
/// How long the head of a request may take, how long its body, and how long a client may take nothing of an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long no connection is taken when the system has no room for one more.
const NO_ROOM: Duration = Duration::from_millis(20);

/// A listener that closes connections which wait for too long, or are too many.
pub(crate) struct Watched {
    listener: TcpListener,
    all: Arc<Connections>,
}

impl Watched {
    pub(crate) fn new(listener: TcpListener) -> Watched {
        Watched { listener, all: Arc::new(Connections { begun: Instant::now(), unknown: Mutex::default() }) }
    }
}

impl Listener for Watched {
    type Io = WatchedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (WatchedStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => return (Connections::add(&self.all, stream), address),
                // The client went away before its turn.
                Err(error) if is_of_connection(&error) => {}
                // No more files: the oldest makes room.
                Err(_) => {
                    self.all.close_oldest();
                    tokio::time::sleep(NO_ROOM).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The connections without the token, the oldest first.
struct Connections {
    begun: Instant,
    unknown: Mutex<(u64, BTreeMap<u64, Arc<Connection>>)>,
}

impl Connections {
    fn add(all: &Arc<Connections>, stream: TcpStream) -> WatchedStream {
        let mut unknown = all.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.0 += 1;
        let connection = Arc::new(Connection {
            number: unknown.0,
            all: Arc::downgrade(all),
            is_known: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            since: AtomicU64::new(all.now()),
            requests: AtomicUsize::new(0),
            waker: AtomicWaker::new(),
        });
        unknown.1.insert(connection.number, connection.clone());
        let is_too_many = unknown.1.len() > MOST_UNKNOWN;
        drop(unknown);
        if is_too_many {
            all.close_oldest();
        }
        WatchedStream { stream, connection, timer: Box::pin(tokio::time::sleep(PATIENCE)), begun: all.begun }
    }

    /// Closes the oldest connection. It waits for a request or for a part of one: what needs no token is answered at once.
    fn close_oldest(&self) {
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = unknown.1.values().next().cloned();
        let Some(oldest) = oldest else { return };
        unknown.1.remove(&oldest.number);
        drop(unknown);
        oldest.is_closed.store(true, Ordering::Relaxed);
        oldest.waker.wake();
    }

    fn now(&self) -> u64 {
        millis(self.begun.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A connection, as its requests see it.
pub(crate) struct Connection {
    number: u64,
    all: Weak<Connections>,
    /// Did a request on it have the token?
    is_known: AtomicBool,
    is_closed: AtomicBool,
    /// Milliseconds of the listener since which it waits.
    since: AtomicU64,
    /// Requests that are answered now.
    requests: AtomicUsize,
    waker: AtomicWaker,
}

impl Connection {
    /// A request had the token, or an address as secret as that.
    pub(crate) fn set_trusted(&self) {
        if !self.is_known.swap(true, Ordering::Relaxed) {
            self.forget();
        }
    }

    fn forget(&self) {
        if let Some(all) = self.all.upgrade() {
            all.unknown.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.number);
        }
    }

    /// It waits from now on.
    fn restart(&self) {
        if let Some(all) = self.all.upgrade() {
            self.since.store(all.now(), Ordering::Relaxed);
        }
    }
}

/// The connection of a request.
#[derive(Clone)]
pub(crate) struct OfRequest(pub(crate) Arc<Connection>);

impl Connected<IncomingStream<'_, Watched>> for OfRequest {
    fn connect_info(stream: IncomingStream<'_, Watched>) -> OfRequest {
        OfRequest(stream.io().connection.clone())
    }
}

/// A request whose head was read, until its answer is known.
pub(crate) struct Answering(Arc<Connection>);

impl Answering {
    pub(crate) fn new(connection: &Arc<Connection>) -> Answering {
        connection.requests.fetch_add(1, Ordering::Relaxed);
        Answering(connection.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.restart();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes of a connection.
pub(crate) struct WatchedStream {
    stream: TcpStream,
    connection: Arc<Connection>,
    timer: Pin<Box<Sleep>>,
    begun: Instant,
}

impl Drop for WatchedStream {
    fn drop(&mut self) {
        self.connection.forget();
    }
}

impl WatchedStream {
    /// Why the connection cannot go on waiting.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let connection = &self.connection;
        if connection.is_known.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        connection.waker.register(context.waker());
        if connection.is_closed.load(Ordering::Relaxed) {
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let since = Duration::from_millis(connection.since.load(Ordering::Relaxed));
            let is_answered = connection.requests.load(Ordering::Relaxed) > 0;
            let end = if is_answered { Instant::now() } else { self.begun + since } + PATIENCE;
            if end <= Instant::now() {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(end.into());
        }
        Poll::Pending
    }

    /// An error when it was closed to make room: nothing is written any more.
    fn check_open(&self) -> io::Result<()> {
        let is_closed = self.connection.is_closed.load(Ordering::Relaxed);
        if is_closed { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    fn or_end<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match done {
            Poll::Pending => self.poll_end(context).map(Err),
            done => done,
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let done = Pin::new(&mut own.stream).poll_read(context, buffer);
        own.or_end(context, done)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.check_open()?;
        let done = Pin::new(&mut own.stream).poll_write(context, bytes);
        if done.is_ready() {
            own.connection.restart();
        }
        own.or_end(context, done)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let done = Pin::new(&mut own.stream).poll_flush(context);
        own.or_end(context, done)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let done = Pin::new(&mut own.stream).poll_shutdown(context);
        own.or_end(context, done)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        own.check_open()?;
        let done = Pin::new(&mut own.stream).poll_write_vectored(context, bytes);
        if done.is_ready() {
            own.connection.restart();
        }
        own.or_end(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
