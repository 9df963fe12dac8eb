//! Plans with scans of traces, as bytes between the processes of a cluster.
//!
//! What is of a trace is written by `trace-sql`, all else by Ballista.

use std::sync::Arc;

use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use trace_sql::{TracePlans, TraceScanPlan, TraceTableProvider};

/// Logical plans.
#[derive(Debug, Default)]
pub(crate) struct LogicalCodec {
    plans: Arc<TracePlans>,
    others: BallistaLogicalExtensionCodec,
}

/// Physical plans.
#[derive(Debug, Default)]
pub(crate) struct PhysicalCodec {
    plans: Arc<TracePlans>,
    others: BallistaPhysicalExtensionCodec,
}

/// Both, with the same open traces.
pub(crate) fn codecs() -> (Arc<LogicalCodec>, Arc<PhysicalCodec>) {
    let plans = Arc::new(TracePlans::default());
    let logical = LogicalCodec { plans: Arc::clone(&plans), ..LogicalCodec::default() };
    (Arc::new(logical), Arc::new(PhysicalCodec { plans, ..PhysicalCodec::default() }))
}

impl LogicalExtensionCodec for LogicalCodec {
    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.others.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, bytes: &mut Vec<u8>) -> Result<()> {
        self.others.try_encode(node, bytes)
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match self.plans.read_table(bytes) {
            Some(table) => Ok(Arc::new(table?)),
            None => self.others.try_decode_table_provider(bytes, name, schema, context),
        }
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        table: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match table.downcast_ref::<TraceTableProvider>() {
            Some(table) => self.plans.write_table(table, bytes),
            None => self.others.try_encode_table_provider(name, table, bytes),
        }
    }

    fn try_decode_file_format(
        &self,
        bytes: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.others.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, bytes: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.others.try_encode_file_format(bytes, format)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        match self.plans.read_function(name, bytes) {
            Some(function) => function,
            None => self.others.try_decode_udf(name, bytes),
        }
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.plans.write_function(function, bytes)
    }
}

impl PhysicalExtensionCodec for PhysicalCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.plans.read_scan(bytes, inputs) {
            Some(scan) => scan,
            None => self.others.try_decode(bytes, inputs, context, converter),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<TraceScanPlan>() {
            Some(scan) => self.plans.write_scan(scan, bytes),
            None => self.others.try_encode(node, bytes, converter),
        }
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        match self.plans.read_function(name, bytes) {
            Some(function) => function,
            None => self.others.try_decode_udf(name, bytes),
        }
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.plans.write_function(function, bytes)
    }
}
