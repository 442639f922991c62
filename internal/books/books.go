// Package books names what becomes of records: each way in which one can be lost, what an account counts, and the
// identities between those counts. What reads or writes such a name, wire to Parquet footer, has it from here.
package books

// A Reason is one way in which records are lost. Loss is allowed; silence is not.
type Reason struct {
	Name    string
	Wire    uint32 // its number in LOST; 0: the shim does not say it
	By      By     // who counts it
	Meaning string
}

// A By is who counts a loss.
type By string

// Who counts a loss, and in which metric.
const (
	Shim     By = "shim"     // told by LOST, counted by the receiver
	Receiver By = "receiver" // kern_trace_dropped_records_total
	Archive  By = "archive"  // kernparquet_lost_rows
)

// Names of reasons.
const (
	CUPTIDropped      = "cupti_dropped"
	HESBuffer         = "hes_buffer"
	ShimPool          = "shim_pool"
	ShimBuffer        = "shim_buffer"
	ShimEvents        = "shim_events"
	ShimMalformed     = "shim_malformed"
	Other             = "other"
	Wire              = "wire"
	EngineGone        = "engine_gone"
	ZeroTimestamp     = "zero_timestamp"
	BackwardTimestamp = "backward_timestamp"
	TooLong           = "too_long"
	FutureTimestamp   = "future_timestamp"
	BeforeLaunch      = "before_launch"
	Late              = "late"
	Duplicate         = "duplicate"
	SessionLimit      = "session_limit"
	DownstreamRefused = "downstream_refused"
	ArchiveLost       = "archive"
)

// Reasons are all of them, in the order in which a record meets them.
var Reasons = []Reason{
	{CUPTIDropped, 1, Shim, "CUPTI's drop counter"},
	{HESBuffer, 2, Shim, "the hardware event buffer overflowed; the number is reserved, and no shim sends it: CUPTI does not say so"},
	{ShimPool, 3, Shim, "no activity buffer was free"},
	{ShimBuffer, 4, Shim, "unacknowledged bytes over the bound"},
	{ShimEvents, 5, Shim, "the ring from the engine's threads was full"},
	{ShimMalformed, 6, Shim, "an activity record that could not be walked, or was cut short"},
	{Other, 0, Receiver, "the shim gave a reason that only a newer collector knows"},
	{Wire, 0, Receiver, "the shim sent it, its frame never came, and no LOST told of it"},
	{EngineGone, 0, Receiver, "the engine ended without a bye before it came: what launches lacked, as far as their number is known"},
	{ZeroTimestamp, 0, Receiver, "start or end is 0: CUPTI did not say; in no sum and not in the archive"},
	{BackwardTimestamp, 0, Receiver, "the end lies before the start; likewise"},
	{TooLong, 0, Receiver, "longer than an hour; likewise"},
	{FutureTimestamp, 0, Receiver, "it ends more than 128 ms after the clock of the flush that brought it; likewise"},
	{BeforeLaunch, 0, Receiver, "it starts more than 0.1 ms before the launch that made it, or, where that is not known, more than 0.1 s before a launch that came before its call; likewise"},
	{Late, 0, Receiver, "a kernel that came after its launch was given up, or after device time had passed it: in the archive, in no sum"},
	{Duplicate, 0, Receiver, "a kernel that had come before, other than what an earlier collector had settled and is sent again"},
	{SessionLimit, 0, Receiver, "a limit on what a session may take (max_session_bytes, open launches, open steps) gave up its launch before it came; one that comes after all is late besides. Or it came, of a device beyond the 64 of a session: such a one has no rank, and is in no other count but the shim's"},
	{DownstreamRefused, 0, Receiver, "the logs pipeline refused its chunk for good, or did not take it within five seconds of its session's end"},
	{ArchiveLost, 0, Archive, "the archive had taken it, and its open file was removed or damaged before it was closed, or its chunk could not be read"},
}

// names are the reasons by their number in LOST.
var names = func() map[uint32]string {
	m := map[uint32]string{}
	for _, r := range Reasons {
		if r.Wire != 0 {
			m[r.Wire] = r.Name
		}
	}
	return m
}()

// OnWire is the name of a reason by its number in LOST; Other if that is not known.
func OnWire(number uint32) string {
	if name, ok := names[number]; ok {
		return name
	}
	return Other
}

// Received are the names of the reasons that the receiver counts, those of LOST among them.
func Received() (all []string) {
	for _, r := range Reasons {
		if r.By != Archive {
			all = append(all, r.Name)
		}
	}
	return all
}

// LostPrefix stands before a reason's name among a chunk's counts.
const LostPrefix = "lost."
