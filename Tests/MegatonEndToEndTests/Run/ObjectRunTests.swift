import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

/// `--output s3://bucket/prefix/` with a store that checks signatures.
@Suite(.timeLimit(.minutes(5))) struct ObjectRunTests {
    @Test func aRunWritesObjects() async throws {
        let home = try RunTests.Home()
        try await MotoServer.run { (moto) async throws in
            for index in 0..<3 {
                let image = TestImage.quarters(width: 60, height: 40, seed: UInt8(index))
                try home.directory.write(image, to: "in/d/\(index) x.png")
            }
            let ledger = home.directory.path + "/ledger.jsonl"
            let run =
                ["run", "in", "-o", "s3://\(MotoServer.bucket)/thumbs/", "-j", "1", "--size", "8", "--ledger", ledger]
                + (try moto.options(in: home.directory))
            for count in [3, 0] {
                let ending = await (try home.megaton(run)).ending()
                #expect(ending.code == 0 && ending.errors.contains("\(count) renders"), "\(ending.errors)")
            }
            let text = try String(contentsOfFile: ledger, encoding: .utf8)
            let outputs = try text.split(separator: "\n").flatMap { line in
                try JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8)).outputs
            }
            let expected = (0..<3).map { "s3://\(MotoServer.bucket)/thumbs/d/\($0)%20x-8x8.jpg" }
            #expect(outputs.compactMap(\.path).sorted() == expected)
            for output in outputs {
                let found = try await moto.check(output)
                #expect(found?.contentType == "image/jpeg")
            }
            let denied = try home.directory.write(
                Data(#"{"source":"file://\#(home.directory.path)/in/d/0%20x.png","output":"s3://other/{stem}"}"#.utf8),
                to: "jobs.jsonl"
            )
            let second = await (try home.megaton(run.map { $0 == "in" ? denied : $0 })).ending()
            #expect(second.code == 2 && second.errors.contains("--allow-bucket"), "\(second.errors)")
        }
    }

    @Test func aRunThatCannotWriteItsObjectsEndsBeforeItFetches() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 60, height: 40), to: "in/a.png")
        let ledger = home.directory.path + "/ledger.jsonl"
        func check(_ bucket: String, _ options: [String], _ words: String) async throws {
            let run = ["run", "in", "-o", "s3://\(bucket)/t/", "-j", "1", "--ledger", ledger] + options
            let ending = await (try home.megaton(run)).ending()
            #expect(ending.code == 74 && ending.errors.contains(words), "\(ending.code) \(ending.errors)")
            #expect(ending.errors.contains("s3://\(bucket)/t/") && ending.errors.contains("Nothing was fetched."))
            #expect(!ending.errors.contains(".."), "two points: \(ending.errors)")
            #expect(!FileManager.default.fileExists(atPath: ledger))
        }
        let unused = try FreePort.find()
        try await check(MotoServer.bucket, ["--s3-endpoint", "http://127.0.0.1:\(unused)"], "cannot be reached")
        try await MotoServer.run { (moto) async throws in
            let absent = try moto.options(in: home.directory, bucket: "no-such-bucket")
            try await check("no-such-bucket", absent, "there is no bucket no-such-bucket.")
            let wrong = try moto.options(in: home.directory, secret: "wrong")
            try await check(MotoServer.bucket, wrong, "the store does not accept the key of the credential")
        }
    }

    private static let impossibleBuckets: [(options: [String], words: String)] = [
        (["-o", "s3://x"], "is neither a bucket nor bucket/prefix"), (["-o", "s3://"], "is neither a bucket"),
        (["-o", "s3://thumbs/%"], "write %25"), (["-o", "/tmp/x", "--allow-bucket", "A"], "--allow-bucket"),
    ]

    @Test func aBucketThatCannotBeIsWrongUsage() async throws {
        try await inPairs(Self.impossibleBuckets) { (options, words) in
            let ending = await (try ProgramUnderTest.megaton(["run", "/tmp"] + options)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
        }
    }
}
