package krec

import (
	"os"

	"github.com/klauspost/compress/zstd"
)

// Write writes r as a .krec.zst file. What Read gets from it encodes to the same bytes.
func Write(path string, r *Recording) error {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	defer e.Close()
	return os.WriteFile(path, e.EncodeAll(Encode(r), nil), 0o644)
}

// Encode lays r out as an unpacked recording.
func Encode(r *Recording) []byte {
	size := 0 // about what comes out: growing step by step would copy most of it many times
	for _, f := range r.Frames {
		size += 128
		if raw, ok := f.(*Raw); ok {
			for _, record := range raw.Records {
				size += len(record)
			}
		}
	}
	b := make([]byte, 0, size)
	for _, f := range r.Frames {
		head := len(b)
		b = append32(b, f.Kind(), 0)
		b = f.appendBody(b)
		le.PutUint32(b[head+4:], uint32(len(b)-head-8))
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

func (f *Meta) appendBody(b []byte) []byte { return append(b, f.JSON...) }

func (f *Raw) appendBody(b []byte) []byte {
	for _, r := range f.Records {
		b = append(b, r...)
	}
	return b
}

func (f *Name) appendBody(b []byte) []byte { return append(append64(b, f.Pointer), f.Text...) }

func (f *Launch) appendBody(b []byte) []byte {
	return append(append32(append64(b, f.Time), f.Correlation, f.Callback, f.Thread, f.Depth), f.Text...)
}

func (f *Push) appendBody(b []byte) []byte {
	return append(f.Payload.append(append32(append64(b, f.Time), f.Thread, f.Depth, f.Domain, 0)), f.Text...)
}

func (f *Pop) appendBody(b []byte) []byte {
	return f.Payload.append(append32(append64(b, f.Time), f.Thread, f.Depth, f.Domain, 0))
}

func (f *Dropped) appendBody(b []byte) []byte { return append64(b, f.Count) }

func (f *NodeCreated) appendBody(b []byte) []byte {
	return append(append32(append64(b, f.Node), f.Type, f.Thread), f.Text...)
}

func (f *NodeCloned) appendBody(b []byte) []byte { return append64(b, f.Original, f.Clone) }

func (f *Clocks) appendBody(b []byte) []byte {
	return append64(b, f.Before, f.CUPTI, f.After, f.Monotonic)
}

func (f *GraphExec) appendBody(b []byte) []byte { return append32(b, f.Graph, f.Exec) }
func (f *Domain) appendBody(b []byte) []byte    { return append(append32(b, f.ID), f.Name...) }
func (f *Captured) appendBody(b []byte) []byte  { return append32(b, f.Correlation) }
