"""Pages are what people see in a browser: whole documents from the server, with plain forms that need no script.

browser_sessions   who looks, and whether a form is our own
rendering          templates, and the frame that every page has
page_contexts      what each template is given
ask_pages          clicks become SQL
…_pages            one module for each page: it calls the counter, and shows what that says
page_routes        where each page is
"""
