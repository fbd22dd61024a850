//! rskafka's part of the end-to-end test: the codecs it is built with, and a consumer. Checks nothing. It supports no
//! groups, no transactions and only acks=all. Topics are those that Clients.java creates.
//!
//! ```sh
//! rskafka_client BOOTSTRAP NAME
//! ```

use std::collections::BTreeMap;

use chrono::Utc;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use serde_json::json;

const MIX: &str = "mix";
const MIX_PARTITIONS: i32 = 4;
const SIZES: [usize; 5] = [1, 10, 100, 1_000, 10_000];
const ROUNDS: usize = 10;
const CODECS: [(&str, Compression); 3] =
    [("none", Compression::NoCompression), ("gzip", Compression::Gzip), ("snappy", Compression::Snappy)];

/// Creates numbered records.
struct Messages {
    name: String,
    sent: u64,
    random: fastrand::Rng,
}

impl Messages {
    /// A record with a value of `size` bytes, half of it random.
    fn next(&mut self, size: usize) -> Record {
        let mut value = vec![0; size];
        self.random.fill(&mut value[..size.div_ceil(2)]);
        let number = self.sent;
        self.sent += 1;
        Record {
            key: (!number.is_multiple_of(3)).then(|| format!("key-{}", number % 7).into_bytes()),
            value: Some(value),
            headers: BTreeMap::from([("mid".to_owned(), format!("{}-{number}", self.name).into_bytes())]),
            timestamp: Utc::now(),
        }
    }
}

async fn connect(bootstrap: &str, client_id: String) -> anyhow::Result<Client> {
    Ok(ClientBuilder::new(vec![bootstrap.to_owned()]).client_id(client_id).build().await?)
}

async fn partition(client: &Client, partition: i32) -> anyhow::Result<PartitionClient> {
    Ok(client.partition_client(MIX, partition, UnknownTopicHandling::Error).await?)
}

async fn produce(bootstrap: &str, messages: &mut Messages) -> anyhow::Result<()> {
    for (codec, compression) in CODECS {
        let client = connect(bootstrap, format!("{}-{codec}-all", messages.name)).await?;
        for index in 0..MIX_PARTITIONS {
            let partition = partition(&client, index).await?;
            for round in 0..ROUNDS {
                let records = (0..=round).map(|_| messages.next(SIZES[round % SIZES.len()])).collect();
                partition.produce(records, compression).await?;
            }
        }
    }
    Ok(())
}

/// Reads the last batch of each partition. Only that one's codec is known to be supported.
async fn consume(bootstrap: &str, name: &str) -> anyhow::Result<usize> {
    let client = connect(bootstrap, format!("{name}-consumer")).await?;
    let mut read = 0;
    for index in 0..MIX_PARTITIONS {
        let partition = partition(&client, index).await?;
        let end = partition.get_offset(OffsetAt::Latest).await?;
        // Other clients may write the next records, with codecs that this one was built without.
        if let Ok((records, _)) = partition.fetch_records(end - 1, 1..1_000_000, 100).await {
            read += records.len();
        }
    }
    Ok(read)
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(bootstrap), Some(name)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: rskafka_client BOOTSTRAP NAME");
    };
    let mut messages = Messages { name, sent: 0, random: fastrand::Rng::with_seed(20) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let read = runtime.block_on(async {
        produce(&bootstrap, &mut messages).await?;
        consume(&bootstrap, &messages.name).await
    })?;
    println!("{}", json!({ "client": messages.name, "sent": messages.sent, "read": read }));
    Ok(())
}
