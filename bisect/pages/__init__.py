"""Shows the store as HTML pages, which are written to a folder or served.

`site` lists the pages, and `addresses` names each of them. `views` and `night_pages` read what they show, and `plots`
computes the marks of charts. `render` fills the templates, and it alone escapes the text of commits and runs. `serve`
answers requests. Begin with `site`.
"""
