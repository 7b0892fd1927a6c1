//! Typed access to the columns of a batch that may have been edited, and arrays of names.
//!
//! Every access checks that the column is there, has its type, and holds no NULL where none is
//! allowed. Errors name the file, the table, the column and the row.

use std::path::Path;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int8Array, PrimitiveArray, RecordBatch,
    StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::DataType;
use haltwise_core::hist::LogHist;

use crate::error::CaptureReadError;
use crate::table::Table;

/// A batch, and where it came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) batch: &'a RecordBatch,
    pub(crate) table: Table,
    pub(crate) path: &'a Path,
    /// The number of its first row, counted from 0 in the file.
    pub(crate) first_row: u64,
}

impl<'a> Columns<'a> {
    pub(crate) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// An error about one value.
    pub(crate) fn bad_value(&self, column: &str, row: usize, what: String) -> CaptureReadError {
        CaptureReadError::Value {
            path: self.path.to_owned(),
            table: self.table,
            column: column.to_owned(),
            row: self.first_row.saturating_add(row as u64),
            what,
        }
    }

    fn column(&self, name: &str) -> Result<&'a ArrayRef, CaptureReadError> {
        self.batch
            .column_by_name(name)
            .ok_or_else(|| CaptureReadError::MissingColumn {
                path: self.path.to_owned(),
                table: self.table,
                column: name.to_owned(),
            })
    }

    fn wrong_type(&self, name: &str, array: &dyn Array, wanted: &'static str) -> CaptureReadError {
        CaptureReadError::ColumnType {
            path: self.path.to_owned(),
            table: self.table,
            column: name.to_owned(),
            found: array.data_type().to_string(),
            wanted,
        }
    }

    /// The first row in which an array is NULL, as an error.
    fn no_nulls(&self, name: &str, array: &dyn Array) -> Result<(), CaptureReadError> {
        if array.null_count() == 0 {
            return Ok(());
        }
        let row = (0..array.len())
            .find(|&row| array.is_null(row))
            .unwrap_or_default();
        Err(self.bad_value(name, row, "NULL where a value must be".to_owned()))
    }

    /// A column of 64-bit numbers that may be NULL.
    pub(crate) fn maybe_u64s(&self, name: &str) -> Result<&'a UInt64Array, CaptureReadError> {
        let array = self.column(name)?;
        array
            .as_primitive_opt::<UInt64Type>()
            .ok_or_else(|| self.wrong_type(name, array, "uint64"))
    }

    /// A column of 64-bit numbers.
    pub(crate) fn u64s(&self, name: &str) -> Result<&'a [u64], CaptureReadError> {
        let array = self.maybe_u64s(name)?;
        self.no_nulls(name, array)?;
        Ok(array.values())
    }

    /// A column of 32-bit numbers that may be NULL.
    pub(crate) fn maybe_u32s(&self, name: &str) -> Result<&'a UInt32Array, CaptureReadError> {
        let array = self.column(name)?;
        array
            .as_primitive_opt::<UInt32Type>()
            .ok_or_else(|| self.wrong_type(name, array, "uint32"))
    }

    /// A column of 32-bit numbers.
    pub(crate) fn u32s(&self, name: &str) -> Result<&'a [u32], CaptureReadError> {
        let array = self.maybe_u32s(name)?;
        self.no_nulls(name, array)?;
        Ok(array.values())
    }

    /// A column of truths that may be NULL.
    pub(crate) fn maybe_bools(&self, name: &str) -> Result<&'a BooleanArray, CaptureReadError> {
        let array = self.column(name)?;
        array
            .as_boolean_opt()
            .ok_or_else(|| self.wrong_type(name, array, "bool"))
    }

    pub(crate) fn bools(&self, name: &str) -> Result<&'a BooleanArray, CaptureReadError> {
        let array = self.maybe_bools(name)?;
        self.no_nulls(name, array)?;
        Ok(array)
    }

    /// A column of texts that may be NULL.
    pub(crate) fn maybe_texts(&self, name: &str) -> Result<&'a StringArray, CaptureReadError> {
        let array = self.column(name)?;
        array
            .as_string_opt::<i32>()
            .ok_or_else(|| self.wrong_type(name, array, "string"))
    }

    pub(crate) fn texts(&self, name: &str) -> Result<&'a StringArray, CaptureReadError> {
        let array = self.maybe_texts(name)?;
        self.no_nulls(name, array)?;
        Ok(array)
    }

    pub(crate) fn names<T: Copy>(
        &self,
        name: &str,
        meaning: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, CaptureReadError> {
        let array = self.column(name)?;
        if let Some(dictionary) = array.as_dictionary_opt::<Int8Type>() {
            return self.keyed_names(name, dictionary, &meaning);
        }
        if let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() {
            return self.keyed_names(name, dictionary, &meaning);
        }
        Err(self.wrong_type(name, array, "dictionary of string"))
    }

    fn keyed_names<T: Copy, K: arrow_array::types::ArrowDictionaryKeyType>(
        &self,
        name: &str,
        dictionary: &'a DictionaryArray<K>,
        meaning: &impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, CaptureReadError> {
        let Some(words) = dictionary.values().as_string_opt::<i32>() else {
            return Err(self.wrong_type(name, dictionary, "dictionary of string"));
        };
        let meanings: Vec<Option<T>> = (0..words.len())
            .map(|key| words.is_valid(key).then(|| meaning(words.value(key)))?)
            .collect();
        (0..dictionary.len())
            .map(|row| match dictionary.key(row) {
                None => Err(self.bad_value(name, row, "NULL where a value must be".to_owned())),
                Some(key) => meanings.get(key).copied().flatten().ok_or_else(|| {
                    let word = if key < words.len() {
                        words.value(key)
                    } else {
                        ""
                    };
                    self.bad_value(name, row, format!("the unknown name `{word}`"))
                }),
            })
            .collect()
    }

    pub(crate) fn lists(&self, name: &str) -> Result<Vec<Vec<u64>>, CaptureReadError> {
        let array = self.column(name)?;
        let wrong = || self.wrong_type(name, array, "list of uint64");
        let lists = array.as_list_opt::<i32>().ok_or_else(wrong)?;
        if *lists.values().data_type() != DataType::UInt64 {
            return Err(wrong());
        }
        self.no_nulls(name, lists)?;
        let list = |row| {
            let list = lists.value(row);
            let numbers: &PrimitiveArray<UInt64Type> = list.as_primitive();
            if numbers.null_count() > 0 {
                return Err(self.bad_value(name, row, "NULL inside the list".to_owned()));
            }
            Ok(numbers.values().to_vec())
        };
        (0..self.len()).map(list).collect()
    }

    /// The three columns `…_hist`, `…_sum` and `…_max` of a histogram.
    pub(crate) fn hists(&self, stem: &str) -> Result<Vec<LogHist>, CaptureReadError> {
        let name = format!("{stem}_hist");
        let lists = self.lists(&name)?;
        let sums = self.u64s(&format!("{stem}_sum"))?;
        let maxima = self.u64s(&format!("{stem}_max"))?;
        let hist = |(row, counts): (usize, Vec<u64>)| {
            let buckets = counts.len();
            LogHist::from_parts(counts, sums[row], maxima[row]).ok_or_else(|| {
                let what = format!(
                    "{buckets} buckets (at most {}), or counts that add up to more than 2^64-1",
                    haltwise_core::hist::BUCKETS
                );
                self.bad_value(&name, row, what)
            })
        };
        lists.into_iter().enumerate().map(hist).collect()
    }
}

/// The value of a row, unless it is NULL.
pub(crate) fn maybe<T: arrow_array::types::ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    row: usize,
) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

/// An array of names, each given by its place among the words.
///
/// The words are the same in every batch, so that a stream holds them once.
pub(crate) fn name_array(words: &[&str], places: impl Iterator<Item = u8>) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    for word in words {
        builder.append_value(word);
    }
    let values = builder.finish().values().clone();
    let keys = Int8Array::from_iter_values(places.map(u8::cast_signed));
    crate::tables::array(DictionaryArray::new(keys, values))
}
