//! What a store answers: a list of two pages and the objects on it, and errors. Does not read it.

const PAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix>a/</Prefix><KeyCount>1</KeyCount>
<MaxKeys>1000</MaxKeys><IsTruncated>TRUNCATED</IsTruncated>NEXT<Contents><Key>a/part-00001.parquet</Key>
<LastModified>2026-11-22T08:00:00.000Z</LastModified><ETag>&quot;b10a8db164e0754105b7a99be72e3fe5&quot;</ETag><Size>9</Size>
<StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>"#;
const ERROR: &str = "<?xml version=\"1.0\"?>\n<Error><Code>CODE</Code><Message>Not\n so</Message><RequestId>1</RequestId></Error>";

/// Inputs of the target `store`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let page = |truncated: &str, next: &str| PAGE.replace("TRUNCATED", truncated).replace("NEXT", next);
    let first = page("true", "<NextContinuationToken>1ueGcxLPRx1Tr</NextContinuationToken>");
    let list = [answer(0, ["", ""], &first), answer(0, ["", ""], &page("false", ""))].concat();
    let headers = ["bytes 0-8/9", "\"b10a8db164e0754105b7a99be72e3fe5\""];
    let object = answer(1, headers, "123456789");
    let replaced = answer(11, ["", ""], &ERROR.replace("CODE", "PreconditionFailed"));
    let none = answer(9, ["", ""], &ERROR.replace("CODE", "NoSuchBucket"));
    let denied = answer(8, ["", ""], &ERROR.replace("CODE", "AccessDenied"));
    let whole = answer(0, ["", ""], "123456789");
    vec![
        [&*list, &object, &object].concat(),
        [&*list, &replaced, &whole].concat(),
        [&*list, &answer(1, ["bytes 0-4/9", ""], "12345"), &object].concat(),
        none,
        denied,
        answer(5, ["", ""], ""),
    ]
}

/// An answer whose status has this place in the list of statuses. Includes a content range and an entity tag unless
/// they are empty.
fn answer(status: u8, [range, tag]: [&str; 2], body: &str) -> Vec<u8> {
    let mut answer = vec![status];
    let (date, length) = ("Sun, 22 Nov 2026 08:00:00 GMT", body.len().to_string());
    let [date, length] = if range.is_empty() { ["", ""] } else { [date, &length] };
    for value in [range, tag, date, length] {
        answer.push(value.len() as u8);
        answer.extend(value.bytes());
    }
    answer.extend((body.len() as u16).to_le_bytes());
    answer.extend(body.bytes());
    answer
}
