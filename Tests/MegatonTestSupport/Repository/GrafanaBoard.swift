import Foundation

/// The board for Grafana in `deploy`.
public struct GrafanaBoard: Decodable, Sendable {
    public struct Panel: Decodable, Sendable {
        public struct Target: Decodable, Sendable {
            public let expr: String
        }

        public let title: String
        public let targets: [Target]
    }

    public let panels: [Panel]

    public static func read() throws -> GrafanaBoard {
        let text = try Repository.text("deploy/grafana/megaton.json")
        return try JSONDecoder().decode(GrafanaBoard.self, from: Data(text.utf8))
    }

    /// The queries of all panels, with a range such as `5m` in the place of Grafana's variable.
    public func queries(range: String) -> [String] {
        panels.flatMap(\.targets).map { $0.expr.replacing("$__rate_interval", with: range) }
    }
}
