package mcp

import "github.com/kernhes/kernhes/docs"

// schema is the page of the archive's columns.
var schema = docs.Schema
