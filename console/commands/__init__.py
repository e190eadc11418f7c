"""The subcommands, one a file; `console.cli` parses and calls them."""
