package sender

import "encoding/binary"

// Numbers of the wire, written out once more: a test holds them to wire.h.
const (
	magic   = 0x315345484e52454b
	version = 1

	kindHello   = 1
	kindInfo    = 2
	kindStrings = 3
	kindEvents  = 4
	kindKernels = 5
	kindCopies  = 6
	kindFlushed = 7
	kindLost    = 8
	kindClock   = 11
	kindBase    = 12
	kindBye     = 13

	flagPinned = 1

	evPush        = 1
	evPop         = 2
	evLaunch      = 5
	evCaptured    = 6
	evNodeCreated = 7
	evNodeCloned  = 8
	evDomain      = 11
	evSchema      = 12
	evPayload     = 13

	launchGraph  = 1
	nodeInLaunch = 1
	readable     = 1
	byeExit      = 1

	frameHead  = 16
	recordSize = 64
	eventHead  = 16
	maxText    = 4096
	maxStrings = 65536
	maxPool    = 16 << 20 // bytes of the texts of all strings
)

// Reasons of LOST.
const (
	LostCUPTI  = 1 // CUPTI's drop counter
	LostBuffer = 4 // unacknowledged bytes over the bound
)

// What LOST counts.
const (
	LostRecords = 0
	LostKernels = 1
	LostCopies  = 2
	LostEvents  = 3
)

var le = binary.LittleEndian

func append16(b []byte, values ...uint16) []byte {
	for _, v := range values {
		b = le.AppendUint16(b, v)
	}
	return b
}

func append32(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = le.AppendUint32(b, v)
	}
	return b
}

func append64(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = le.AppendUint64(b, v)
	}
	return b
}

// padded appends text, and zeros up to a multiple of 8.
func padded(b []byte, text string) []byte {
	b = append(b, text...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func flag(set bool, bit uint32) uint32 {
	if set {
		return bit
	}
	return 0
}

// A Kernel is a kernel record, as far as the wire carries it.
type Kernel struct {
	Start, End    uint64 // unix ns; 0: not known
	Node          uint64 // 0: not of a graph
	Correlation   uint32
	Name          uint32 // of ID; 0: not known
	Stream        uint32
	Device        uint16
	Registers     uint16
	Grid, Block   [3]uint32
	Context       uint16
	SharedStatic  uint32
	SharedDynamic uint32
}

func (k *Kernel) append(b []byte) []byte {
	b = append64(b, k.Start, k.End, k.Node)
	b = append32(b, k.Correlation, k.Name, k.Stream)
	b = append16(b, k.Device, k.Registers)
	b = append32(b, k.Grid[0])
	b = append16(b, uint16(k.Grid[1]), uint16(k.Grid[2]), uint16(k.Block[0]), uint16(k.Block[1]), uint16(k.Block[2]), k.Context)
	return append32(b, k.SharedStatic, k.SharedDynamic)
}

// A Copy is a record of a copy or memset, as far as the wire carries it.
type Copy struct {
	Start, End  uint64 // unix ns
	Node        uint64
	Bytes       uint64
	Correlation uint32
	Stream      uint32
	Device      uint16
	Kind        uint8 // CUpti_ActivityKind
	CopyKind    uint8 // CUpti_ActivityMemcpyKind; 0 for a memset
	From, To    uint8 // CUpti_ActivityMemoryKind
	Flags       uint16
	Context     uint32
}

func (c *Copy) append(b []byte) []byte {
	b = append64(b, c.Start, c.End, c.Node, c.Bytes)
	b = append32(b, c.Correlation, c.Stream)
	b = append16(b, c.Device)
	b = append(b, c.Kind, c.CopyKind, c.From, c.To)
	b = append16(b, c.Flags, 0, 0)
	return append64(append32(b, c.Context), 0)
}
