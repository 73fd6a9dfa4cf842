"""Model Context Protocol: servers whose tools are tools here, and our tools served to clients."""
