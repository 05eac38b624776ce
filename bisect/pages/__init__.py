"""Shows the store as HTML pages, which are written to a folder or served.

`site` lists the pages, and `views` reads what they show. `render` fills the templates, names the address of each page,
and computes the marks of charts. It alone escapes the text of commits and runs. `serve` answers requests. Begin with
`site`.
"""
