import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

@Suite struct FileAccessTests {
    @Test func readsBeneathItsRoots() throws {
        let directory = try TestDirectory()
        let path = try directory.write(Data("image".utf8), to: "in/a b.jpg")
        let access = FileAccess(roots: [directory.path + "/in"])
        let file = try access.file(at: path)
        #expect(file.size == 5)
        #expect(try access.read(file, limit: 5) == Data("image".utf8))
        #expect(TestPipeline.thrownCode { _ = try access.read(file, limit: 4) } == .dataTooLarge)
    }

    /// Fault: the slash before a combining mark was no separator, so that `..` in front of it was not noticed, and a
    /// directory was created outside of the root.
    @Test func aCombiningMarkAfterASlashHidesNothing() throws {
        let directory = try TestDirectory()
        let path = try directory.write(Data("image".utf8), to: "in/\u{301}sub/a.jpg")
        let access = FileAccess(roots: [directory.path + "/in"])
        #expect(try access.file(at: path).size == 5)
        close(try access.openOutput(at: directory.path + "/in/\u{301}new/a.jpg").descriptor)
        for outside in ["in/../\u{301}out/a.jpg", "in/sub/../../\u{301}out/a.jpg"] {
            let asked = "\(directory.path)/\(outside)"
            #expect(TestPipeline.thrownCode { _ = try access.openOutput(at: asked) } == .forbidden)
        }
        #expect(!FileManager.default.fileExists(atPath: directory.path + "/\u{301}out"))
    }

    @Test func isNotLedOut() throws {
        let directory = try TestDirectory()
        let secret = try directory.write(Data("secret".utf8), to: "secret.jpg")
        try directory.write(Data(), to: "in/a.jpg")
        try directory.write(Data(), to: "inner/b.jpg")
        let fileManager = FileManager.default
        try fileManager.createSymbolicLink(atPath: directory.path + "/in/link.jpg", withDestinationPath: secret)
        try fileManager.createSymbolicLink(atPath: directory.path + "/in/up", withDestinationPath: directory.path)
        let access = FileAccess(roots: [directory.path + "/in"])
        for path in ["in/../secret.jpg", "in/link.jpg", "in/up/secret.jpg", "secret.jpg", "inner/b.jpg"] {
            #expect(
                TestPipeline.thrownCode { _ = try access.file(at: "\(directory.path)/\(path)") } == .forbidden,
                "\(path)"
            )
        }
        // Errors do not reveal which files exist outside the roots.
        #expect(TestPipeline.thrownCode { _ = try access.file(at: directory.path + "/missing.jpg") } == .forbidden)
        #expect(TestPipeline.thrownCode { _ = try access.file(at: "/nosuch/missing.jpg") } == .forbidden)
        #expect(TestPipeline.thrownCode { _ = try access.file(at: directory.path + "/in/missing.jpg") } == .notFound)
        #expect(TestPipeline.thrownCode { _ = try access.file(at: directory.path + "/in/no/missing.jpg") } == .notFound)
        #expect(TestPipeline.thrownCode { _ = try access.file(at: "in/a.jpg") } == .forbidden)
        #expect(TestPipeline.thrownCode { _ = try access.file(at: directory.path + "/in/a.jpg\0x") } == .forbidden)
        #expect(TestPipeline.thrownCode { _ = try access.file(at: directory.path + "/in") } == .forbidden)
        #expect(TestPipeline.thrownCode { _ = try access.file(at: directory.path + "/in/none.jpg") } == .notFound)
        #expect(TestPipeline.thrownCode { _ = try FileAccess(roots: []).file(at: secret) } == .forbidden)
    }

    /// Fault: a link in a root was said not to be beneath that root.
    @Test func aLinkThatLeadsOutIsNamed() throws {
        let directory = try TestDirectory()
        let secret = try directory.write(Data("secret".utf8), to: "secret.jpg")
        try directory.write(Data(), to: "in/a.jpg")
        let root = directory.path + "/in"
        let fileManager = FileManager.default
        try fileManager.createSymbolicLink(atPath: "\(root)/link.jpg", withDestinationPath: secret)
        try fileManager.createSymbolicLink(atPath: "\(root)/up", withDestinationPath: "..")
        try fileManager.createSymbolicLink(atPath: "\(directory.path)/outer.jpg", withDestinationPath: secret)
        let access = FileAccess(roots: [root])
        func message(_ body: () throws -> Void) -> String {
            do {
                try body()
                return ""
            } catch {
                return (error as? ImagePipeline.Error)?.message ?? "\(error)"
            }
        }
        let link = message { _ = try access.file(at: "\(root)/link.jpg") }
        #expect(
            link.hasPrefix(
                "\(root)/link.jpg is a symbolic link to \(secret), which is not beneath an allowed root (\(root))"
            )
        )
        let way = "leads through \(root)/up, a symbolic link to .., which is not beneath an allowed"
        // The same message whether or not the file exists.
        for name in ["secret.jpg", "missing.jpg"] {
            let path = "\(root)/up/\(name)"
            #expect(message { _ = try access.file(at: path) }.hasPrefix("\(path) \(way) root"))
            #expect(message { _ = try access.prepareOutput(at: path) }.hasPrefix("\(path) \(way) output root"))
        }
        // A link outside of the roots is not revealed.
        let outer = message { _ = try access.file(at: "\(directory.path)/outer.jpg") }
        #expect(outer.hasPrefix("\(directory.path)/outer.jpg is not beneath an allowed root (\(root))"))
    }

    // Roots may be URLs, and messages name the library's setting.
    @Test func rootsMayBeURLs() throws {
        let directory = try TestDirectory()
        let path = try directory.write(Data([1]), to: "a b.png")
        let access = FileAccess(roots: [URL(fileURLWithPath: directory.path)])
        #expect(try access.read(access.file(at: path), limit: 1) == Data([1]))
        for roots in [[URL(string: "https://example.org\(directory.path)")!], []] {
            #expect {
                _ = try FileAccess(roots: roots).file(at: path)
            } throws: {
                let message = ($0 as? ImagePipeline.Error)?.message ?? ""
                return message.contains("Configuration.fileAccess") && !message.contains("--")
            }
        }
    }

    @Test func aRootMayBeALink() throws {
        let directory = try TestDirectory()
        let path = try directory.write(Data("x".utf8), to: "real/a.jpg")
        try FileManager.default.createSymbolicLink(
            atPath: directory.path + "/alias",
            withDestinationPath: directory.path + "/real"
        )
        #expect(try FileAccess(roots: [directory.path + "/alias"]).file(at: path).size == 1)
        #expect(try FileAccess(roots: [directory.path + "/real"]).file(at: directory.path + "/alias/a.jpg").size == 1)
    }

    @Test func makesTheDirectoriesOfOutputsBeneathItsRoots() throws {
        let directory = try TestDirectory()
        let access = FileAccess(roots: [directory.path])
        let (folder, name) = try access.prepareOutput(at: directory.path + "/a/b/c.jpg")
        #expect(folder == directory.path + "/a/b" && name == "c.jpg")
        #expect(FileManager.default.fileExists(atPath: folder))
        try FileManager.default.createSymbolicLink(atPath: directory.path + "/out", withDestinationPath: "/tmp")
        #expect(
            TestPipeline.thrownCode { _ = try access.prepareOutput(at: directory.path + "/out/x.jpg") } == .forbidden
        )
        #expect(TestPipeline.thrownCode { _ = try access.prepareOutput(at: "/nowhere/at/all.jpg") } == .forbidden)
        #expect(
            TestPipeline.thrownCode { _ = try access.prepareOutput(at: directory.path + "/../x.jpg") } == .forbidden
        )
        #expect(!FileManager.default.fileExists(atPath: "/nowhere"))
        // Fault: the message had the description of a Foundation error.
        let file = try directory.write(Data(), to: "file")
        #expect {
            _ = try access.prepareOutput(at: file + "/a/x.jpg")
        } throws: { error in
            (error as? ImagePipeline.Error)?.message.hasSuffix("cannot be created: \(file) is not a directory.") == true
        }
    }

    /// Fault: a root whose disk was gone was created again, and the outputs filled the disk of the system.
    @Test func aRootThatIsGoneIsNotCreatedAgain() throws {
        let directory = try TestDirectory()
        let (gone, new) = (directory.path + "/gone", directory.path + "/new")
        try directory.write(Data(), to: "gone/x")
        let access = FileAccess(roots: [gone, new])
        try FileManager.default.removeItem(atPath: gone)
        #expect {
            _ = try access.openOutput(at: gone + "/a/b.jpg")
        } throws: { error in
            let error = error as? ImagePipeline.Error
            return error?.code == .outputFailed && error?.isOfStorage == true
                && error?.message.contains("The output root \(gone) was there before") == true
        }
        #expect(!FileManager.default.fileExists(atPath: gone))
        // A root that was never there is created with its first output.
        close(try access.openOutput(at: new + "/a/b.jpg").descriptor)
        try FileManager.default.createDirectory(atPath: gone, withIntermediateDirectories: false)
        close(try access.openOutput(at: gone + "/a/b.jpg").descriptor)
    }

    @Test func opensADirectoryThatExistsIfItIsAllowed() throws {
        let directory = try TestDirectory()
        let root = directory.path + "/root"
        for name in ["in", "in (deleted)", "a\nb", "\u{301}"] { try directory.write(Data(), to: "root/\(name)/x") }
        try directory.write(Data(), to: "outside/x")
        for (link, target) in [("inner", root + "/in"), ("outer", directory.path + "/outside")] {
            try FileManager.default.createSymbolicLink(atPath: "\(root)/\(link)", withDestinationPath: target)
        }
        let access = FileAccess(roots: [root])
        for (asked, expected) in [
            ("in", "in"), ("inner", "in"), (".//in/.", "in"), ("in (deleted)", "in (deleted)"), ("a\nb", "a\nb"),
            ("\u{301}", "\u{301}"),
        ] {
            let place = try access.openOutput(at: "\(root)/\(asked)/c.jpg")
            close(place.descriptor)
            #expect(place.path == "\(root)/\(expected)" && place.name == "c.jpg")
        }
        for asked in ["outer/c.jpg", "in/../../outside/c.jpg"] {
            let code = TestPipeline.thrownCode { _ = try access.openOutput(at: "\(root)/\(asked)") }
            #expect(code == .forbidden, "\(asked)")
        }
        #expect(TestPipeline.thrownCode { _ = try access.openOutput(at: root + "/in/x/c.jpg") } == .outputFailed)
        let place = try access.openOutput(at: root + "/in/c.jpg/")
        close(place.descriptor)
        #expect(place.path == root + "/in" && place.name == "c.jpg")
    }

    /// Fault: the output was opened by path again after the check, and went wherever the path led by then.
    @Test func anOutputGoesToTheDirectoryThatWasLookedAt() throws {
        let directory = try TestDirectory()
        let (root, path) = (directory.path + "/in", directory.path + "/in/a/b.jpg")
        try directory.write(Data(), to: "in/a/first.jpg")
        try directory.write(Data(), to: "elsewhere/x.jpg")
        let access = FileAccess(roots: [root])
        let output = try access.openOutput(at: path)
        defer { close(output.descriptor) }
        #expect(output.path == root + "/a" && output.name == "b.jpg")
        try FileManager.default.moveItem(atPath: root + "/a", toPath: root + "/old")
        let elsewhere = directory.path + "/elsewhere"
        try FileManager.default.createSymbolicLink(atPath: root + "/a", withDestinationPath: elsewhere)
        let made = openat(output.descriptor, output.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        #expect(made >= 0)
        close(made)
        #expect(directory.files == ["elsewhere/x.jpg", "in/old/b.jpg", "in/old/first.jpg"])
        // The directory is replaced between the check and the opening.
        #expect(TestPipeline.thrownCode { _ = try access.open(directory: root + "/a", asked: path) } == .forbidden)
    }
}
