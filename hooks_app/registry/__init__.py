"""What each agent's runtimes are served: drafts and publications, what a registry is built from, manifests, heads.

Rows are read in :mod:`.input_rows` and written by :mod:`.heads`, :mod:`.publishing` and :mod:`.runtimes`; what is
called ``manifest_*`` is pure. It may import the models, the approvers, conditions and the switches.
"""
