package chunklog

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/kernhes/kernhes/internal/digest"
)

// DigestVersionAttribute is the attribute of a log record that has digest.Version.
const DigestVersionAttribute = "kern.digest.version"

// IsDigest reports whether a log record says that it holds a digest.
func IsDigest(r plog.LogRecord) bool { return r.EventName() == digest.EventName }

// PutDigest makes a log record of the digest of a chunk's record. Its trace id is the chunk's.
func PutDigest(body []byte, of, to plog.LogRecord) {
	to.SetEventName(digest.EventName)
	to.Attributes().PutInt(DigestVersionAttribute, digest.Version)
	to.SetTimestamp(of.Timestamp())
	to.SetTraceID(of.TraceID())
	to.Body().SetEmptyBytes().FromRaw(body)
}

// DigestBody returns the body of a log record that holds a digest.
func DigestBody(r plog.LogRecord) ([]byte, error) {
	if !IsDigest(r) {
		return nil, fmt.Errorf("log record with event name %q, want %q: %w", r.EventName(), digest.EventName, ErrNoChunk)
	}
	version, ok := r.Attributes().Get(DigestVersionAttribute)
	if !ok || version.Type() != pcommon.ValueTypeInt || version.Int() != digest.Version {
		return nil, fmt.Errorf("log record without %s %d: %w", DigestVersionAttribute, digest.Version, digest.ErrVersion)
	}
	if r.Body().Type() != pcommon.ValueTypeBytes {
		return nil, fmt.Errorf("log record with a body of type %s, want bytes: %w", r.Body().Type(), ErrNoChunk)
	}
	return r.Body().Bytes().AsRaw(), nil
}
