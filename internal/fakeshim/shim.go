package fakeshim

import (
	"cmp"
	"encoding/binary"

	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/sender"
)

// A shim gathers the frames of a recording.
type shim struct {
	*sender.Sender
	frames [][]byte
}

func newShim() *shim {
	s := &shim{}
	s.Sender = sender.New(func(_ uint64, frame []byte) { s.frames = append(s.frames, frame) })
	return s
}

// filled is o with the defaults for a recording.
func (o Options) filled(r *krec.Recording) Options {
	o.Run = cmp.Or(o.Run, "recorded")
	o.Rank = cmp.Or(o.Rank, r.Meta().Info.Rank)
	o.Host = cmp.Or(o.Host, "recorder")
	o.Session = cmp.Or(o.Session, 1)
	return o
}

// evPop is POP's number on the wire.
const evPop = 2

// event sends an event that is written by hand. So a tool that is built on this package can send what no recording holds.
func (s *shim) event(kind uint16, thread uint32, body []byte) { s.Event(kind, thread, body) }

func append32(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func append64(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// padded appends text, and zeros up to a multiple of 8.
func padded(b []byte, text string) []byte {
	b = append(b, text...)
	return append(b, make([]byte, -len(b)&7)...)
}

func (s *shim) push(f *krec.Push) {
	s.Push(f.Thread, f.Domain, f.Depth, f.Text)
	if p := f.Payload; p != nil {
		s.PushPayload(f.Thread, f.Domain, f.Depth, p.Schema, p.Data)
	}
}

func (s *shim) dropped(f *krec.Dropped) {
	if f.Count > 0 {
		s.Lost(sender.Loss{Reason: sender.LostCUPTI, What: sender.LostRecords, Count: f.Count, From: s.Flushed, To: s.Now})
	}
}

// deliver sends the records of one delivery, then FLUSHED.
func (s *shim) deliver(d delivery) {
	s.Now = max(s.Now, d.at)
	var kernels []sender.Kernel
	var copies []sender.Copy
	for _, r := range d.records {
		if r.Kind() == krec.KindKernel {
			kernels = append(kernels, kernel(r.Record, s.ID(r.name)))
		} else {
			copies = append(copies, copyOf(r.Record))
		}
	}
	s.Records(kernels, copies)
	s.Flush(d.at)
}

func schemaOf(f *krec.Schema) sender.Schema {
	s := sender.Schema{Domain: f.Domain, ID: f.ID, Size: f.Size, Pack: f.Pack, Type: f.Type}
	for _, e := range f.Entries {
		s.Fields = append(s.Fields, sender.Field{Type: e.Type, Flags: e.Flags, Offset: e.Offset, Detail: e.Detail, Name: e.Name})
	}
	return s
}

func kernel(r krec.Record, name uint32) sender.Kernel {
	return sender.Kernel{
		Start: r.Start(), End: r.End(), Node: r.Node(), Correlation: r.Correlation(), Name: name, Stream: r.Stream(),
		Device: uint16(r.Device()), Registers: r.Registers(), Grid: r.Grid(), Block: r.Block(), Context: uint16(r.Context()),
		SharedStatic: r.SharedStatic(), SharedDynamic: r.SharedDynamic(),
	}
}

func copyOf(r krec.Record) sender.Copy {
	from, to := r.Memories()
	return sender.Copy{
		Start: r.Start(), End: r.End(), Node: r.Node(), Bytes: r.Bytes(), Correlation: r.Correlation(), Stream: r.Stream(),
		Device: uint16(r.Device()), Kind: uint8(r.Kind()), CopyKind: r.CopyKind(), From: from, To: to, Flags: r.Flags(), Context: r.Context(),
	}
}
