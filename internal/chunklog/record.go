// Package chunklog puts a chunk into a log record, or takes it out.
package chunklog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/kernhes/kernhes/internal/chunk"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// VersionAttribute is the attribute of a log record that has chunk.Version.
const VersionAttribute = "kern.chunk.version"

// ErrNoChunk is why a log record is not taken that holds none; it never will be. chunk.ErrVersion is the other reason.
var ErrNoChunk = errors.New("not a chunk of packed steps")

// Put makes a log record of a sealed chunk of a run. Its trace id is the window's, so that what
// routes by trace id brings the ranks of a window together.
func Put(s *chunk.Sealed, to plog.LogRecord, run string) {
	to.SetEventName(chunk.EventName)
	to.Attributes().PutInt(VersionAttribute, chunk.Version)
	to.SetTimestamp(pcommon.Timestamp(s.Last))
	to.SetTraceID(WindowID(run, s.Window))
	to.Body().SetEmptyBytes().FromRaw(s.Body)
}

// Body returns the body of a log record that holds a chunk.
func Body(r plog.LogRecord) ([]byte, error) {
	if r.EventName() != chunk.EventName {
		return nil, fmt.Errorf("log record with event name %q, want %q: %w", r.EventName(), chunk.EventName, ErrNoChunk)
	}
	version, ok := r.Attributes().Get(VersionAttribute)
	if !ok {
		return nil, fmt.Errorf("log record without %s, want %d to %d: %w", VersionAttribute, chunk.OldestVersion, chunk.Version, chunk.ErrVersion)
	}
	if version.Type() != pcommon.ValueTypeInt || version.Int() < chunk.OldestVersion || version.Int() > chunk.Version {
		return nil, fmt.Errorf("log record with %s %s, want %d to %d: %w", VersionAttribute, version.AsString(), chunk.OldestVersion, chunk.Version, chunk.ErrVersion)
	}
	if r.Body().Type() != pcommon.ValueTypeBytes {
		return nil, fmt.Errorf("log record with a body of type %s, want bytes: %w", r.Body().Type(), ErrNoChunk)
	}
	return r.Body().Bytes().AsRaw(), nil
}

// WindowID is the trace id of a window of a run.
func WindowID(run string, window int64) (id pcommon.TraceID) {
	b := binary.LittleEndian.AppendUint64([]byte(run), uint64(window))
	binary.LittleEndian.PutUint64(id[:8], xxhash.Sum64(b))
	binary.LittleEndian.PutUint64(id[8:], xxhash.Sum64(append(b, 1)))
	return id
}
