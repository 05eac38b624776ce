"""Shows the store as HTML pages, which are written to a folder or served.

`site` lists the pages, and `addresses` names each of them. `views` and `night_pages` read what they show. `render`
fills the templates and computes the marks of charts, and it alone escapes the text of commits and runs. `serve` answers
requests. Begin with `site`.
"""
