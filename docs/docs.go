// Package docs has pages that programs show.
package docs

import _ "embed"

// Schema is docs/schema.md: the archive's tables, columns, units and pitfalls.
//
//go:embed schema.md
var Schema string
