import Foundation
import Hummingbird
import Logging
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// The description of the API is that of its routes.
@Suite struct APIDocumentTests {
    private static let methods = ["get", "put", "post", "delete", "patch"]

    private static func document() throws -> [String: Any] {
        let json = try JSONSerialization.jsonObject(with: Data(APIDocument.json))
        return try #require(json as? [String: Any])
    }

    /// The operations of the document by method and path.
    private static func operations() throws -> [(name: String, operation: [String: Any])] {
        let paths = try #require(try document()["paths"] as? [String: [String: Any]])
        return paths.flatMap { path, item in
            methods.compactMap { method in
                (item[method] as? [String: Any]).map { ("\(method.uppercased()) \(plain(path))", $0) }
            }
        }
    }

    /// A path without the names of its parameters.
    private static func plain(_ path: String) -> String { path.replacing(/\{[^}]*\}/, with: "{}") }

    @Test func itHasAllRoutesAndNoOther() throws {
        let redis = try RedisConfiguration(url: "redis://127.0.0.1:1")
        let logger = Logger(label: "test")
        let cluster = ClusterConnection(
            QueueAddress([redis], queue: "default"),
            caches: [redis],
            logger: logger
        )
        defer { cluster.close() }
        let server = HTTPServer(
            HTTPServer.Configuration(try #require(ListenAddress("127.0.0.1:0"))),
            gate: .open,
            cluster: cluster,
            registry: PrometheusRegistry([]),
            process: ProcessMetrics(version: "1", role: "serve"),
            logger: logger
        )
        let routes = server.router.routes.map { "\($0.method.rawValue) \(Self.plain($0.path.description))" }
        // These are jobs with such ids, which the document has as `/dead/{id}`.
        let ids: Set = ["GET /api/v1/dead/requeue", "GET /api/v1/dead/drop"]
        #expect(Set(routes).subtracting(ids) == Set(try Self.operations().map(\.name)))
    }

    @Test func eachOperationSaysWhatItNeeds() throws {
        let operations = try Self.operations()
        let open = (["/live", "/ready"] + DashboardPage.files.map(\.path)).map { "GET \($0)" }
        let ids = operations.compactMap { $0.operation["operationId"] as? String }
        #expect(ids.count == operations.count && Set(ids).count == ids.count)
        for (name, operation) in operations {
            let security = try #require(operation["security"] as? [[String: Any]], "\(name)")
            let isOpen = open.contains(name)
            #expect(security.isEmpty == isOpen, "\(name)")
            let responses = try #require(operation["responses"] as? [String: Any], "\(name)")
            #expect(isOpen || Set(["401", "403", "429"]).isSubset(of: responses.keys), "\(name)")
            #expect(responses.keys.contains { $0.hasPrefix("2") }, "\(name)")
            #expect(responses["405"] != nil, "\(name)")
            let hasBody = operation["requestBody"] != nil
            #expect(hasBody == (responses["415"] != nil), "\(name)")
        }
    }

    /// The decoder refuses unknown fields, and reads null as a missing one.
    @Test func aJobHasTheFieldsOfItsSchema() throws {
        let components = try #require(try Self.document()["components"] as? [String: [String: Any]])
        let job = try #require(components["schemas"]?["Job"] as? [String: Any])
        let fields = try #require(job["properties"] as? [String: Any])
        let schema = try JSONSerialization.jsonObject(with: Data(Repository.text("docs/job.schema.json").utf8))
        let known = try #require((schema as? [String: Any])?["properties"] as? [String: Any])
        #expect(Set(fields.keys) == Set(known.keys) && job["additionalProperties"] as? Bool == false)
        for name in fields.keys.sorted() where name != "source" && name != "sources" {
            let json = #"{"source":"data:,a","\#(name)":null}"#
            #expect(throws: Never.self) { try Job(json: Data(json.utf8)) }
        }
    }

    @Test func itsReferencesLeadSomewhere() throws {
        let document = try Self.document()
        let text = String(decoding: APIDocument.json, as: UTF8.self)
        let references = text.matches(of: /"#\/components\/(\w+)\/(\w+)"/).map(\.output)
        #expect(references.count > 20)
        let components = try #require(document["components"] as? [String: [String: Any]])
        for reference in references {
            #expect(components[String(reference.1)]?[String(reference.2)] != nil, "\(reference.0)")
        }
    }
}
