package fakeshim

import (
	"encoding/binary"

	"github.com/kernhes/kernhes/internal/krec"
)

// Numbers of the wire, written out once more: a test holds them to wire.h.
const (
	magic   = 0x315345484e52454b
	version = 1

	kindHello   = 1
	kindStrings = 3
	kindEvents  = 4
	kindKernels = 5
	kindCopies  = 6
	kindFlushed = 7
	kindLost    = 8
	kindClock   = 11
	kindBase    = 12
	kindBye     = 13

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
	lostCUPTI    = 1
	byeExit      = 1

	maxText    = 4096
	maxPayload = 512
	maxStrings = 65536
	maxPool    = 16 << 20 // bytes of the texts of all strings
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

func appendKernel(b []byte, r krec.Record, name uint32) []byte {
	grid, block := r.Grid(), r.Block()
	b = append64(b, r.Start(), r.End(), r.Node())
	b = append32(b, r.Correlation(), name, r.Stream())
	b = append16(b, uint16(r.Device()), r.Registers())
	b = append32(b, grid[0])
	b = append16(b, uint16(grid[1]), uint16(grid[2]), uint16(block[0]), uint16(block[1]), uint16(block[2]), uint16(r.Context()))
	return append32(b, r.SharedStatic(), r.SharedDynamic())
}

func appendCopy(b []byte, r krec.Record) []byte {
	src, dst := r.Memories()
	b = append64(b, r.Start(), r.End(), r.Node(), r.Bytes())
	b = append32(b, r.Correlation(), r.Stream())
	b = append16(b, uint16(r.Device()))
	b = append(b, byte(r.Kind()), r.CopyKind(), src, dst)
	b = append16(b, r.Flags(), 0, 0)
	return append64(append32(b, r.Context()), 0)
}
