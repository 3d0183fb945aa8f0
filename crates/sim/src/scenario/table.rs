//! Deserialisation of structs from tables only: serde also accepts a list, with its items in the order of the fields.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A struct written as a table of keys.
pub(super) struct Table<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(KeyVisitor(PhantomData))
    }
}

/// Deserialises a list of structs, each written as a table of keys.
pub(super) fn tables<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let tables: Vec<Table<T>> = Vec::deserialize(from)?;
    Ok(tables.into_iter().map(|table| table.0).collect())
}

struct KeyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for KeyVisitor<T> {
    type Value = Table<T>;

    /// Uses serde's wording for a struct, which [`super::explain`] rewrites.
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
        write!(f, "struct {name}")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Table)
    }
}
