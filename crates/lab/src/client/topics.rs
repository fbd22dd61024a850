//! Makes topics over a client's own connection, without a JVM of its own, and waits until they can be written to.

use std::time::Duration;

use super::connection::Connection;
use super::request::{Request, Topic};
use super::response::{fetched, first_error};
use crate::error::Error;
use crate::interrupt::Interrupt;

/// How long a new topic may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// `Errors.TOPIC_ALREADY_EXISTS`.
const TOPIC_EXISTS: i16 = 36;

/// Makes a topic, if it is not there, and waits until the broker leads its partitions.
pub(crate) fn create_topic(
    connection: &mut Connection,
    topic: &Topic,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let body = connection.call(&Request::create_topic(topic))?;
    match first_error("CREATE_TOPICS", &body) {
        Some(0 | TOPIC_EXISTS) => {}
        code => {
            let name = &topic.name;
            return Err(Error::Unusable(format!("the broker makes no topic {name}: error {code:?}")));
        }
    }
    (0..topic.partitions).try_for_each(|partition| wait_for_leader(connection, topic, partition, interrupt))
}

fn wait_for_leader(
    connection: &mut Connection,
    topic: &Topic,
    partition: u32,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let name = &topic.name;
    let led = || {
        let body = connection.call(&Request::fetch(name, partition, 0, 1, 0))?;
        Ok(fetched(&body).filter(|brought| brought.error == 0).map(drop))
    };
    let late = || Error::TooSlow {
        what: format!("the broker's becoming leader of {name}-{partition}"),
        limit: PATIENCE,
        hint: String::new(),
    };
    interrupt.wait(PATIENCE, led, late)
}
