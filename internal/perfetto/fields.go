package perfetto

// Field numbers and values of Perfetto's protos, as published in protos/perfetto/trace.
const (
	tracePacket = 1 // Trace.packet

	// TracePacket
	packetClockSnapshot   = 6
	packetTimestamp       = 8
	packetSequence        = 10 // trusted_packet_sequence_id
	packetTrackEvent      = 11
	packetInterned        = 12 // interned_data
	packetSequenceFlags   = 13
	packetTrackDescriptor = 60

	sequenceCleared = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	sequenceNeeds   = 2 // SEQ_NEEDS_INCREMENTAL_STATE

	// ClockSnapshot, and its Clock
	snapshotClocks  = 1
	snapshotPrimary = 2 // primary_trace_clock
	clockID         = 1
	clockTimestamp  = 2
	clockRealtime   = 1 // BuiltinClock
	clockBoottime   = 6

	// TrackDescriptor
	trackUUID     = 1
	trackName     = 2
	trackProcess  = 3
	trackParent   = 5  // parent_uuid
	trackOrdering = 11 // child_ordering
	trackRank     = 12 // sibling_order_rank

	orderExplicit = 3 // ChildTracksOrdering

	// ProcessDescriptor
	processPID    = 1
	processName   = 6
	processLabels = 8

	// TrackEvent
	eventCategory    = 3 // category_iids
	eventAnnotation  = 4 // debug_annotations
	eventType        = 9
	eventName        = 10 // name_iid
	eventTrack       = 11 // track_uuid
	eventCorrelation = 52 // correlation_id: slices that share one share a colour

	sliceBegin = 1 // Type
	sliceEnd   = 2

	// InternedData, and what it holds
	internedCategories  = 1 // EventCategory
	internedNames       = 2 // EventName
	internedAnnotations = 3 // DebugAnnotationName
	internedIID         = 1
	internedText        = 2

	// DebugAnnotation
	annotationName = 1 // name_iid
	annotationText = 6
)
