//! Scans of events, and our functions, as bytes of plans.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion_physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion_proto::physical_plan::from_proto::parse_physical_expr;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf::{PhysicalExprNode, Schema as SchemaMessage};
use prost::Message;
use tracemill_sql::remote::{OverlapExec, RemoteFunctions, RemotePart, RemoteScan, SessionResolver, functions};

/// How the bytes of a scan begin; those of Ballista's plans do not.
const MAGIC: &[u8] = b"\0tracemill scan\0";

/// How the bytes of an `overlap` begin; the number of its keys follows.
const OVERLAP: &[u8] = b"\0tracemill overlap\0";

/// The version that both sides must have: their functions are the same then.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Ballista's codec, which knows our scans and functions too.
#[derive(Debug)]
pub(crate) struct Codec {
    inner: BallistaPhysicalExtensionCodec,
    opens: Arc<dyn SessionResolver>,
    /// The traces of scans that were not sent yet.
    traces: Option<Arc<str>>,
    scalar: Vec<Arc<ScalarUDF>>,
    aggregates: Vec<Arc<AggregateUDF>>,
    windows: Vec<Arc<WindowUDF>>,
}

impl Codec {
    pub(crate) fn new(opens: Arc<dyn SessionResolver>, traces: Option<Arc<str>>) -> Result<Codec> {
        let RemoteFunctions { scalar, aggregates, windows } = functions()?;
        let inner = BallistaPhysicalExtensionCodec::default();
        Ok(Codec { inner, opens, traces, scalar, aggregates, windows })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Scan {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    traces: String,
    #[prost(string, optional, tag = "3")]
    table: Option<String>,
    #[prost(message, optional, tag = "4")]
    schema: Option<SchemaMessage>,
    #[prost(message, repeated, tag = "5")]
    made: Vec<PhysicalExprNode>,
    #[prost(string, repeated, tag = "6")]
    names: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    conditions: Vec<PhysicalExprNode>,
    #[prost(message, repeated, tag = "8")]
    groups: Vec<Group>,
    #[prost(uint64, optional, tag = "9")]
    limit: Option<u64>,
    #[prost(message, repeated, tag = "10")]
    orders: Vec<Order>,
    #[prost(bool, tag = "11")]
    is_numbered: bool,
    #[prost(bool, tag = "12")]
    is_ordered: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Group {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<PartMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PartMessage {
    #[prost(bool, tag = "1")]
    is_merged: bool,
    #[prost(uint64, tag = "2")]
    stream: u64,
    #[prost(uint64, tag = "3")]
    begin: u64,
    #[prost(uint64, tag = "4")]
    end: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Order {
    #[prost(message, repeated, tag = "1")]
    of: Vec<PhysicalExprNode>,
    #[prost(bool, repeated, tag = "2")]
    descending: Vec<bool>,
    #[prost(bool, repeated, tag = "3")]
    nulls_first: Vec<bool>,
}

fn codec_error(what: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("a scan of traces cannot be read: {what}"))
}

impl Codec {
    fn expressions(&self, of: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<PhysicalExprNode>> {
        of.iter().map(|expression| serialize_physical_expr(expression, self)).collect()
    }

    fn encoded(&self, sent: &RemoteScan, traces: &str) -> Result<Vec<u8>> {
        let made: Vec<_> = sent.projection.as_ref().iter().map(|of| of.expr.clone()).collect();
        let part = |part: &RemotePart| match part {
            None => PartMessage { is_merged: true, ..PartMessage::default() },
            Some((stream, packets)) => PartMessage {
                is_merged: false,
                stream: *stream as u64,
                begin: packets.start as u64,
                end: packets.end as u64,
            },
        };
        let order = |order: &LexOrdering| {
            let of: Vec<_> = order.iter().map(|sort| sort.expr.clone()).collect();
            Ok(Order {
                of: self.expressions(&of)?,
                descending: order.iter().map(|sort| sort.options.descending).collect(),
                nulls_first: order.iter().map(|sort| sort.options.nulls_first).collect(),
            })
        };
        let scan = Scan {
            version: VERSION.into(),
            traces: traces.into(),
            table: sent.table.clone(),
            schema: Some(SchemaMessage::try_from(sent.schema.as_ref()).map_err(codec_error)?),
            made: self.expressions(&made)?,
            names: sent.projection.as_ref().iter().map(|of| of.alias.clone()).collect(),
            conditions: self.expressions(&sent.conditions)?,
            groups: sent.groups.iter().map(|parts| Group { parts: parts.iter().map(part).collect() }).collect(),
            limit: sent.limit.map(|limit| limit as u64),
            orders: sent.ordering.iter().map(order).collect::<Result<_>>()?,
            is_numbered: sent.is_numbered,
            is_ordered: sent.is_ordered,
        };
        Ok(scan.encode_to_vec())
    }

    fn decoded(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = Scan::decode(bytes).map_err(codec_error)?;
        if scan.version != VERSION {
            let theirs = &scan.version;
            return Err(DataFusionError::Execution(format!(
                "the query comes from tracemill {theirs}, and this part of the cluster is tracemill {VERSION}: all must be \
                 of one version"
            )));
        }
        let schema = scan.schema.as_ref().ok_or_else(|| codec_error("it has no columns"))?;
        let schema: Arc<Schema> = Arc::new(schema.try_into().map_err(codec_error)?);
        let expressions = |nodes: &[PhysicalExprNode]| -> Result<Vec<Arc<dyn PhysicalExpr>>> {
            nodes.iter().map(|node| parse_physical_expr(node, context, &schema, self)).collect()
        };
        let made = expressions(&scan.made)?;
        if made.len() != scan.names.len() {
            return Err(codec_error("its columns have no names"));
        }
        let projection = made.into_iter().zip(scan.names).map(|(made, name)| ProjectionExpr::new(made, name));
        let part = |part: &PartMessage| {
            let packets = part.begin as usize..part.end as usize;
            (!part.is_merged).then_some((part.stream as usize, packets))
        };
        let mut ordering = Vec::new();
        for order in &scan.orders {
            let options = order.descending.iter().zip(&order.nulls_first);
            let options = options.map(|(&descending, &nulls_first)| SortOptions { descending, nulls_first });
            let of = expressions(&order.of)?;
            ordering
                .extend(LexOrdering::new(of.into_iter().zip(options).map(|(of, by)| PhysicalSortExpr::new(of, by))));
        }
        let sent = RemoteScan {
            table: scan.table,
            projection: ProjectionExprs::new(projection),
            conditions: expressions(&scan.conditions)?,
            groups: scan.groups.iter().map(|group| group.parts.iter().map(part).collect()).collect(),
            limit: scan.limit.map(|limit| limit as usize),
            ordering,
            is_numbered: scan.is_numbered,
            is_ordered: scan.is_ordered,
            schema,
        };
        Ok(sent.into_plan(scan.traces.into(), self.opens.clone()))
    }
}

/// Stands for one of our functions, by its name.
const OURS: &[u8] = b"tracemill";

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(scan) = bytes.strip_prefix(MAGIC) {
            return self.decoded(scan, context);
        }
        match (bytes.strip_prefix(OVERLAP), inputs) {
            (Some(keys), [a, b]) => {
                let keys = keys.try_into().map(u64::from_le_bytes).map_err(codec_error)?;
                Ok(Arc::new(OverlapExec::new(a.clone(), b.clone(), keys as usize)))
            }
            _ => self.inner.try_decode(bytes, inputs, context, converter),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(overlap) = node.downcast_ref::<OverlapExec>() {
            bytes.extend_from_slice(OVERLAP);
            bytes.extend((overlap.keys() as u64).to_le_bytes());
            return Ok(());
        }
        let Some((sent, traces)) = RemoteScan::from_plan(node.as_ref()) else {
            return self.inner.try_encode(node, bytes, converter);
        };
        let traces = traces.or_else(|| self.traces.clone()).ok_or_else(|| codec_error("its traces are not known"))?;
        bytes.extend_from_slice(MAGIC);
        bytes.extend(self.encoded(&sent, &traces)?);
        Ok(())
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if self.scalar.iter().any(|own| own.name() == function.name()) {
            bytes.extend_from_slice(OURS);
            return Ok(());
        }
        self.inner.try_encode_udf(function, bytes)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        match self.scalar.iter().find(|own| own.name() == name) {
            Some(own) if bytes == OURS => Ok(own.clone()),
            _ => self.inner.try_decode_udf(name, bytes),
        }
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if self.aggregates.iter().any(|own| own.name() == function.name()) {
            bytes.extend_from_slice(OURS);
            return Ok(());
        }
        self.inner.try_encode_udaf(function, bytes)
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        match self.aggregates.iter().find(|own| own.name() == name) {
            Some(own) if bytes == OURS => Ok(own.clone()),
            _ => self.inner.try_decode_udaf(name, bytes),
        }
    }

    fn try_encode_udwf(&self, function: &WindowUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if self.windows.iter().any(|own| own.name() == function.name()) {
            bytes.extend_from_slice(OURS);
            return Ok(());
        }
        self.inner.try_encode_udwf(function, bytes)
    }

    fn try_decode_udwf(&self, name: &str, bytes: &[u8]) -> Result<Arc<WindowUDF>> {
        match self.windows.iter().find(|own| own.name() == name) {
            Some(own) if bytes == OURS => Ok(own.clone()),
            _ => self.inner.try_decode_udwf(name, bytes),
        }
    }

    fn try_decode_expr(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        context: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.inner.try_decode_expr(bytes, inputs, context)
    }

    fn try_encode_expr(
        &self,
        expression: &Arc<dyn PhysicalExpr>,
        bytes: &mut Vec<u8>,
        context: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        self.inner.try_encode_expr(expression, bytes, context)
    }
}
