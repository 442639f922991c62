package perfetto

import "encoding/binary"

// A message is a protobuf message as it is built up.
type message []byte

// Wire types of protobuf.
const (
	varint = 0
	length = 2
)

// uint appends a field that holds a number, also a bool or an enum.
func (m message) uint(field int, v uint64) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|varint)
	return binary.AppendUvarint(m, v)
}

// text appends a field that holds a string.
func (m message) text(field int, s string) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|length)
	m = binary.AppendUvarint(m, uint64(len(s)))
	return append(m, s...)
}

// message appends a field that holds a message.
func (m message) message(field int, inner message) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|length)
	m = binary.AppendUvarint(m, uint64(len(inner)))
	return append(m, inner...)
}
