//! A connection to systemd's manager.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::time::Instant;

use super::Error;
use super::message::{Call, Incoming, PREAMBLE, Value, Writer, length_after};

/// Where systemd itself listens for those who may do all.
const OWN_SOCKET: &str = "/run/systemd/private";
/// Where the bus is on which it is to be found otherwise.
const BUS_SOCKET: &str = "/run/dbus/system_bus_socket";
const BUS: &str = "org.freedesktop.DBus";
const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const OBJECT: &str = "/org/freedesktop/systemd1";
/// How long it may be silent, and how long a job may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest line that either says before messages begin.
const LONGEST_LINE: usize = 512;

/// One conversation: begun for one operation, over with it.
pub(super) struct Connection {
    stream: UnixStream,
    /// Whether others are on it, who must be told apart by name.
    is_bus: bool,
    serial: u32,
    /// Jobs that have ended, and how.
    ended: Vec<(String, String)>,
}

impl Connection {
    /// To systemd by its own socket, or by the bus where that is not to be had.
    pub(super) fn open() -> Result<Self, Error> {
        let opened = Self::begin(OWN_SOCKET, false);
        opened.or_else(|own| Self::begin(BUS_SOCKET, true).map_err(|bus| Error::Reach { own, bus }))
    }

    fn begin(socket: &str, is_bus: bool) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Self { stream, is_bus, serial: 0, ended: Vec::new() };
        connection.authenticate()?;
        if is_bus {
            connection.join().map_err(io::Error::other)?;
        }
        Ok(connection)
    }

    /// We are who the kernel says. The end of it is not left to the first message to bring: systemd reads on only when more
    /// comes, and would overlook a message that came together with `BEGIN`.
    fn authenticate(&mut self) -> io::Result<()> {
        let user: String =
            geteuid().as_raw().to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
        self.stream.write_all(format!("\0AUTH EXTERNAL {user}\r\nBEGIN\r\n").as_bytes())?;
        let answer = self.line()?;
        if answer.starts_with("OK ") {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, answer))
    }

    /// A line up to its end, and nothing of what follows.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if line.len() == LONGEST_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without end"));
            }
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.extend(byte);
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// On a bus one says that one is there, and what one wants to hear. By its own socket systemd tells all it does.
    fn join(&mut self) -> Result<(), Error> {
        let on_bus = |member, signature, body| Call {
            destination: BUS,
            path: "/org/freedesktop/DBus",
            interface: BUS,
            member,
            signature,
            body,
        };
        self.exchange(on_bus("Hello", "", Writer::default()))?;
        let mut rule = Writer::default();
        rule.text(&format!("type='signal',sender='{SYSTEMD}',interface='{MANAGER}',member='JobRemoved'"));
        self.exchange(on_bus("AddMatch", "s", rule))?;
        self.call("Subscribe", "", Writer::default()).map(drop)
    }

    /// Starts a unit that nobody has a file of, and waits until it has.
    pub(super) fn start_transient<'a>(
        &mut self,
        unit: &str,
        properties: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Result<(), Error> {
        let mut body = Writer::default();
        body.text(unit);
        body.text("replace");
        body.properties(properties);
        body.nothing();
        let answer = self.call("StartTransientUnit", "ssa(sv)a(sa(sv))", body)?;
        self.wait(answer.text(0))
    }

    /// Sets properties of a unit until the machine is started again.
    pub(super) fn set<'a>(
        &mut self,
        unit: &str,
        properties: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Result<(), Error> {
        let mut body = Writer::default();
        body.text(unit);
        body.flag(true);
        body.properties(properties);
        self.call("SetUnitProperties", "sba(sv)", body).map(drop)
    }

    /// Stops a unit, with all that is in it, and waits until it has.
    pub(super) fn stop(&mut self, unit: &str) -> Result<(), Error> {
        let mut body = Writer::default();
        body.text(unit);
        body.text("replace");
        let answer = self.call("StopUnit", "ss", body)?;
        self.wait(answer.text(0))
    }

    fn call(&mut self, member: &str, signature: &str, body: Writer) -> Result<Incoming, Error> {
        // Where nobody else is, nobody needs a name.
        let destination = if self.is_bus { SYSTEMD } else { "" };
        self.exchange(Call { destination, path: OBJECT, interface: MANAGER, member, signature, body })
    }

    fn exchange(&mut self, call: Call<'_>) -> Result<Incoming, Error> {
        self.serial += 1;
        let serial = self.serial;
        self.stream.write_all(&call.message(serial)).map_err(Error::Talk)?;
        loop {
            let message = self.receive()?;
            if message.answers != serial {
                continue;
            }
            if message.error.is_empty() {
                return Ok(message);
            }
            let text = message.text(0).to_owned();
            return Err(Error::Refused { name: message.error, text });
        }
    }

    fn wait(&mut self, job: &str) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((_, result)) = self.ended.iter().find(|(ended, _)| ended == job) {
                return if result == "done" { Ok(()) } else { Err(Error::Job(result.clone())) };
            }
            if Instant::now() > deadline {
                return Err(Error::Job("not done yet".to_owned()));
            }
            self.receive()?;
        }
    }

    /// The next message; what is of a job that ended is kept.
    fn receive(&mut self) -> Result<Incoming, Error> {
        let bad = || Error::Talk(io::Error::new(io::ErrorKind::InvalidData, "what came is no message"));
        let mut message = vec![0; PREAMBLE];
        self.stream.read_exact(&mut message).map_err(Error::Talk)?;
        let preamble = message.as_slice().try_into().expect("it must be as long as it was made");
        message.resize(PREAMBLE + length_after(preamble).ok_or_else(bad)?, 0);
        self.stream.read_exact(&mut message[PREAMBLE..]).map_err(Error::Talk)?;
        let message = Incoming::parse(&message).ok_or_else(bad)?;
        if message.member == "JobRemoved" {
            self.ended.push((message.text(1).to_owned(), message.text(3).to_owned()));
        }
        Ok(message)
    }
}
