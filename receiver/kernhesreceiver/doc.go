// Package kernhesreceiver is an OpenTelemetry Collector receiver of GPU kernel records, which a shim
// injected into an inference engine takes from CUPTI.
//
// # A tour of one kernel record
//
// In the engine's process, libkernhes.so copies CUPTI's record into 64 bytes and sends it, behind the
// launch that made it, over one connection (internal/wire, WIRE.md).
//
//	link.go          reads frames off that connection; what is wrong with them ends it, and nothing else
//	session.go       keeps the engine's account over all its connections, and says what may be acknowledged
//	internal/engine  is the account of one engine process; process.go there hands each frame through the rooms:
//
//	  internal/cupti      joins the record to its launch by correlation id, and a node of an executable
//	                      graph to the call in which it was captured
//	  internal/classify   has said of its name whether it computes or communicates
//	  internal/ranges     has said in which step and call its launch was made, from NVTX ranges
//	  internal/nccl       has said which communicator its launch was for and how many bytes, from NCCL's
//	                      NVTX payloads, and which rank of how many the process is
//	  internal/step       appends it to that step; closes the step when each launch has its records;
//	                      interns what the step's kernels are as a shape
//	  internal/device     adds its time to the device's: compute, comm, idle or unknown
//	                      (internal/span: lengths of unions)
//
// Nothing but start and duration is then left of the record itself. With each flush of CUPTI's buffers
// the watermark advances (engine/time.go): device time is accounted up to there, and steps that lie
// before it are final: internal/coverage sums how much of their kernels' time is known for what it is. Before the
// first of them engine/identity.go settles which run and ranks the process is (internal/identity), and it gives each a
// number that no other step of the rank has (internal/seq). Then
//
//	engine/archive.go  packs it, and kernels outside any step, into chunks (internal/chunk at the top of
//	                   the module)
//	engine/sink.go     offers it to a sink, with the source that it is of: a rank on a device
//
// No room up to here knows the Collector: a test holds that (layers_test.go). What leaves the engine are plain values, of which
//
//	metrics.go         exports device time and the sums over steps, every collection_interval and at bye
//	traces.go          is the sink. It offers the step to sampling (internal/sample); a step that is picked becomes
//	                   spans (internal/trace): a root a rank, levels of its call labels, a leaf a kernel
//	deliver.go         gives the chunks to the logs pipeline once a second (internal/chunklog: chunk to log record):
//	                   every kernel, with its times
//	resource.go        makes the resource of all three
//	dump.go            writes a line a step and a session, if asked to
//
// and when the logs pipeline and the dump have taken a step, the frames that it rested on are
// acknowledged, and the shim frees them. From the logs pipeline the chunks reach Parquet files
// (exporter/kernparquetexporter, internal/parquet).
//
// The rules that class kernels follow the user's files while they change (internal/rules), and runs.go looks at all ranks of a run
// together: if they never communicate, something is not known for what it is.
//
// What is lost on the way is counted where it is lost, by the names of internal/books; engine/books.go keeps the
// account, and what its identities cannot explain is a residue, a metric that is 0 (docs/books.md).
package kernhesreceiver
