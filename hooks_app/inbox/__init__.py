"""The web inbox: the requests that wait for the person who is signed in, and a page for each."""
