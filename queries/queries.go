// Package queries has the SQL files of this folder, for programs that run elsewhere.
package queries

import "embed"

// Files are views.sql, which the others stand on, and a file a question.
//
//go:embed *.sql
var Files embed.FS
