"""The web pages: complete documents rendered on the server, with plain forms that work without JavaScript.

rendering          templates, and the frame around every page
page_contexts      the context of each template
ask_pages          asking questions, and building SQL from form choices
…_pages            one module per group of pages: calls the gateway and renders the result
page_routes        the routes
"""
