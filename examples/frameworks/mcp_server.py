"""An MCP server with the tools of these examples, on stdin and stdout. It knows nothing of Hookgate."""

from mcp.server import MCPServer

from examples.frameworks import story

server = MCPServer("sample-tools")
for _name, _tool in story.TOOLS.items():
    server.add_tool(_tool, name=_name)

if __name__ == "__main__":
    server.run("stdio")
