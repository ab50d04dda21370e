import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

/// `--output s3://bucket/prefix/` with a store that checks signatures.
@Suite(.timeLimit(.minutes(5))) struct ObjectRunTests {
    private func options(_ moto: MotoServer, _ home: RunTests.Home) throws -> [String] {
        let key = #""s3":{"id":"\#(moto.keyID)","secret":"\#(moto.secret)"}"#
        let json = #"{"credentials":[{"sources":["s3://\#(MotoServer.bucket)"],\#(key)}]}"#
        let file = try home.directory.write(Data(json.utf8), to: "credentials.json")
        chmod(file, 0o600)
        return ["--s3-endpoint", moto.url.absoluteString, "--credentials", file]
    }

    private func store(_ moto: MotoServer) throws -> S3Store {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.schemes.insert("s3")
        configuration.s3 = S3Endpoint(url: moto.url)
        configuration.credentials = Credentials([
            Credential(
                sources: [try SourceRule("s3://\(MotoServer.bucket)")],
                method: .s3(keyID: moto.keyID, secret: Secret(moto.secret), sessionToken: nil)
            )
        ])
        return S3Store(DataLoader(configuration))
    }

    @Test func aRunWritesObjects() async throws {
        let (home, moto) = (try RunTests.Home(), try await MotoServer.start())
        do {
            for index in 0..<3 {
                let image = TestImage.quarters(width: 60, height: 40, seed: UInt8(index))
                try home.directory.write(image, to: "in/d/\(index) x.png")
            }
            let ledger = home.directory.path + "/ledger.jsonl"
            let run =
                ["run", "in", "-o", "s3://\(MotoServer.bucket)/thumbs/", "-j", "1", "--size", "8", "--ledger", ledger]
                + (try options(moto, home))
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
                let location = try S3Location(try #require(output.path.flatMap { URL(string: $0) }))
                guard case .found(let found) = try await store(moto).lookup(location) else {
                    Issue.record("\(location) is missing")
                    continue
                }
                #expect(found.size == output.bytes && found.contentType == "image/jpeg")
                #expect(found.sha256 == output.sha256)
            }
            let denied = try home.directory.write(
                Data(#"{"source":"file://\#(home.directory.path)/in/d/0%20x.png","output":"s3://other/{stem}"}"#.utf8),
                to: "jobs.jsonl"
            )
            let second = await (try home.megaton(run.map { $0 == "in" ? denied : $0 })).ending()
            #expect(second.code == 2 && second.errors.contains("--allow-bucket"), "\(second.errors)")
            await moto.stop()
        } catch {
            await moto.stop()
            throw error
        }
    }

    @Test(arguments: [
        (["-o", "s3://x"], "is neither a bucket nor bucket/prefix"), (["-o", "s3://"], "is neither a bucket"),
        (["-o", "/tmp/x", "--allow-bucket", "A"], "--allow-bucket"),
    ])
    func aBucketThatCannotBeIsWrongUsage(_ options: [String], _ words: String) async throws {
        let ending = await (try ProgramUnderTest.megaton(["run", "/tmp"] + options)).ending()
        #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
    }
}
