import Foundation
import Testing

@testable import MegatonCluster

/// The field `traceparent` of a job.
@Suite struct TraceParentTests {
    private static let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @Test func aJobKeepsTheTraceOfItsClient() throws {
        let job = try Job(json: Data(#"{"source":"x","traceparent":"\#(Self.valid)"}"#.utf8))
        #expect(job.traceparent == Self.valid)
        #expect(try Job(json: job.json()) == job)
        let pack = Pack(sharing: job, sources: [Pack.Source(id: "a", source: "y")])
        #expect(pack.job(pack.sources[0]).traceparent == Self.valid)
    }

    @Test(arguments: [
        "", "00", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-00",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319-bb7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
    ]) func anotherTextIsRefused(_ text: String) {
        #expect(!TraceParent.isValid(text))
        let error = #expect(throws: JobError.self) {
            try Job(json: Data(#"{"source":"x","traceparent":"\#(text)"}"#.utf8))
        }
        #expect(error?.message.hasPrefix("traceparent is \"") == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("allowed are texts of W3C Trace Context") == true)
    }
}
