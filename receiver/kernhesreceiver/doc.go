// Package kernhesreceiver is an OpenTelemetry Collector receiver of GPU kernel records, which a shim
// injected into an inference engine takes from CUPTI.
//
// # A tour of one kernel record
//
// In the engine's process, libkernhes.so copies CUPTI's record into 64 bytes and sends it, behind the
// launch that made it, over one connection (internal/wire, WIRE.md).
//
// Two rooms take it in:
//
//	internal/server   reads frames off that connection. A wrong frame ends the connection and nothing else
//	internal/session  keeps the account of the engine over all its connections. It decides which frames may
//	                  be acknowledged
//
// internal/engine is the account of one engine process. process.go there hands each frame through its rooms:
//
//	internal/cupti      joins the record to its launch by correlation id, and a node of an executable graph
//	                    to the call in which it was captured
//	internal/classify   classes its name: compute or communication
//	internal/ranges     knows the step and the call of its launch, from NVTX ranges
//	internal/nccl       knows the communicator and the bytes of its launch, from NCCL's NVTX payloads, and
//	                    which rank of how many the process is
//	internal/step       appends it to that step, closes the step when each launch has its records, and
//	                    interns what the step's kernels are as a shape
//	internal/device     adds its time to the device's: compute, comm, idle or unknown (internal/span: lengths
//	                    of unions)
//
// Only start and duration are then left of the record itself. With each flush of CUPTI's buffers the watermark
// advances (engine/time.go). Device time is accounted up to there, and steps that lie before it are final.
// internal/coverage sums how much of their kernels' time has a known class and label. Before the first of them,
// engine/identity.go settles which run and ranks the process is (internal/identity). It gives each step a number
// that no other step of the rank has (internal/seq). engine/archive.go packs steps, and kernels outside any, into
// chunks (internal/chunk at the top of the module).
//
// No room up to here knows the Collector: a test holds that (layers_test.go). Plain values leave the engine:
//
//	internal/metrics   exports device time and the sums over steps, every collection_interval and at BYE
//	internal/traces    offers each final step to sampling (internal/sample). A step that is picked becomes
//	                   spans (internal/trace): a root a rank, levels of its call labels, a leaf a kernel
//	internal/logs      gives chunks to the logs pipeline (internal/chunklog: chunk to log record)
//	internal/jsonl     writes a line a step and a session, if the setting dump names a file. The journal on
//	                   which acknowledgement rests is internal/session's own (journal.go)
//	internal/resource  makes the resource of metrics, traces and logs
//
// When the logs pipeline and the dump have taken a step, internal/session acknowledges the frames on which it
// rests, and the shim frees them. From the logs pipeline the chunks reach Parquet files
// (exporter/kernparquetexporter, internal/parquet).
//
// These rooms stand beside that path:
//
//	internal/rules     the rules that class kernels; it follows the user's files while they change
//	internal/fleet     looks at all ranks of a run together: who is silent, who claims the same rank
//	internal/windows   decides when the ranks of a run are traced, and for how long, from what their steps take
//	internal/orders    tells that to the shims of engines in the mode windows (engine/windows.go reads the edges)
//	internal/control   answers HTTP: status, traces on demand, yield, windows
//	internal/watch     hands final steps and reports to internal/history, which keeps the last 15 minutes;
//	                   internal/page draws them: the live page
//	internal/pace      counts step ranges and their intervals; internal/hooks reads what engines' hooks tell
//	internal/wall      counts steps by wall time, for histograms; internal/median keeps a running median
//	internal/share     says which peer gives way when connections or sessions are used up
//	internal/flood     holds back log lines that repeat; internal/machine says how much memory there is
//	internal/handover  keeps what a receiver leaves for the next one when the configuration is reloaded
//
// What is lost on the way is counted where it is lost, by the names of internal/books. engine/books.go keeps the
// account. What its identities cannot explain is a residue, a metric that is 0 (docs/books.md).
//
// # Where to change what
//
//	how a step closes          internal/step
//	how a metric is exported   internal/metrics, with its name in metadata.yaml
//	how an engine is refused   internal/server
//	what may be acknowledged   internal/session
//	what the page shows        internal/history, and how internal/page
//	what HTTP answers          internal/control
//	when a window opens        internal/windows
package kernhesreceiver
