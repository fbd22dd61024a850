//! The three columns that say which block device: `device` (its name, where known), `device_major`,
//! `device_minor`.

use std::sync::Arc;

use arrow_array::PrimitiveArray;
use arrow_array::types::UInt32Type;
use model::Device;

use crate::cells::{BadRow, Cells};
use crate::number_builder::NumberBuilder;
use crate::text::TextPool;
use crate::text_builder::TextBuilder;
use crate::text_cells::Texts;

/// Appends a device to its columns.
pub(crate) fn append(
    device: &Device,
    name: &mut TextBuilder,
    major: &mut NumberBuilder<UInt32Type>,
    minor: &mut NumberBuilder<UInt32Type>,
) {
    name.append_option(Some(&*device.name).filter(|name| !name.is_empty()));
    major.append_value(device.major);
    minor.append_value(device.minor);
}

/// Reads it back.
pub(crate) fn read(
    i: usize,
    name: &Cells<Texts>,
    major: &Cells<PrimitiveArray<UInt32Type>>,
    minor: &Cells<PrimitiveArray<UInt32Type>>,
    pool: &mut TextPool,
) -> Result<Device, BadRow> {
    let name = name.maybe(i, pool).unwrap_or_else(|| Arc::from(""));
    Ok(Device { major: major.at(i)?, minor: minor.at(i)?, name })
}
