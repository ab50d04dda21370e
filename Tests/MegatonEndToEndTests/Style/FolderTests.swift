import Foundation
import MegatonTestSupport
import Testing

/// Walls between the folders of a module, and the sizes of modules and files.
@Suite struct FolderTests {
    /// A file of the sources.
    private struct File {
        /// Relative to `Sources`.
        let path: String
        let lines: Int
        let source: SwiftSource

        /// The module, and the first folder in it if there is one.
        var folder: String {
            let parts = path.split(separator: "/")
            return parts.prefix(parts.count > 2 ? 2 : 1).joined(separator: "/")
        }
        var module: String { String(path.prefix { $0 != "/" }) }
    }

    private static let files: [File] = Repository.swiftFiles("Sources").map { path in
        let text = (try? Repository.text(path)) ?? ""
        let lines = text.utf8.reduce(0) { $0 + ($1 == UInt8(ascii: "\n") ? 1 : 0) }
        return File(path: String(path.dropFirst("Sources/".count)), lines: lines, source: SwiftSource(text))
    }

    /// Pairs of folders that need each other, with the reason; at most six. A folder is one below a module; the files
    /// of a module that are in no folder count as one.
    private static let mutual: [Set<String>: String] = [
        ["MegatonPipeline/Originals", "MegatonPipeline/Pipeline"]:
            "The configuration is nested in the pipeline, as in Nuke, and the loader of originals is built from it.",
        ["MegatonPipeline/Pipeline", "MegatonPipeline/Renditions"]:
            "The configuration is nested in the pipeline, as in Nuke, and the producer is built from it.",
        ["MegatonRedis", "MegatonRedis/Connection"]:
            "The client holds a connection, and a connection sends the client's commands.",
        ["MegatonRedis", "MegatonRedis/Cluster"]:
            "The client sends its commands through the router, and the router routes the client's commands.",
        ["MegatonRendering/Plan", "MegatonRendering/Vips"]:
            "The protocol of engines returns an image of libvips; the limits ask which loaders libvips may use.",
    ]

    @Test func fewFoldersNeedEachOther() {
        #expect(Self.mutual.count <= 6)
        let needs = Self.needs(among: Self.files.map { ($0.path, $0.folder, $0.source) })
        let pairs = Set(needs.keys.filter { needs[[$0[1], $0[0]]] != nil }.map(Set.init))
        for pair in pairs where Self.mutual[pair] == nil {
            let names = pair.sorted()
            let reasons = [names, names.reversed()].map { needs[$0]?.sorted().prefix(5).joined(separator: ", ") ?? "" }
            Issue.record("\(names[0]) needs \(names[1]): \(reasons[0]), and the other way: \(reasons[1])")
        }
        for pair in Self.mutual.keys where !pairs.contains(pair) {
            Issue.record("\(pair.sorted()) do not need each other any more")
        }
    }

    /// All folders of the cluster use jobs: a job that needs one of them closes a circle.
    @Test func jobsNeedNoOtherFolder() {
        let needs = Self.needs(among: Self.files.map { ($0.path, $0.folder, $0.source) })
        #expect(needs.keys.contains(["MegatonCluster/Queue", "MegatonCluster/Job"]))
        // Files that are in no folder are below all of them.
        for (pair, uses) in needs where pair[0] == "MegatonCluster/Job" && pair[1] != "MegatonCluster" {
            Issue.record("Jobs need \(pair[1]): \(uses.sorted().joined(separator: ", "))")
        }
    }

    /// For each two folders of a module of which the first uses types of the second: the uses.
    ///
    /// A type is known by its name, if only one file declares a type of that name, or else by its name and that of the
    /// type around it. Names that are declared several times all the same are left out, and so are common words.
    private static func needs(
        among files: [(path: String, folder: String, source: SwiftSource)]
    ) -> [[String]: Set<String>] {
        var homes: [String: Set<Int>] = [:]
        var members: [String: Set<Int>] = [:]
        for (index, file) in files.enumerated() {
            for declaration in file.source.declarations {
                homes[declaration.name, default: []].insert(index)
                if let outer = declaration.outer { members["\(outer).\(declaration.name)", default: []].insert(index) }
            }
        }
        let known = homes.filter { $0.value.count == 1 && !common.contains($0.key) }
        let knownMembers = members.filter { $0.value.count == 1 }
        var needs: [[String]: Set<String>] = [:]
        for file in files {
            let uses = file.source.words.compactMap { word in known[word]?.first.map { (word, $0) } }
            let memberUses = file.source.members.compactMap { word in knownMembers[word]?.first.map { (word, $0) } }
            for (name, home) in uses + memberUses {
                let other = files[home].folder
                guard other != file.folder, module(other) == module(file.folder) else { continue }
                let fileName = file.path.split(separator: "/").last ?? ""
                needs[[file.folder, other], default: []].insert("\(name) in \(fileName)")
            }
        }
        return needs
    }

    private static func module(_ folder: String) -> Substring { folder.prefix { $0 != "/" } }

    /// Names that system types or cases of ours have, too.
    private static let common: Set<String> = [
        "Body", "CodingKeys", "Configuration", "Context", "Data", "Date", "Element", "Error", "Event", "Failure", "ID",
        "Index", "Input", "Iterator", "Key", "Kind", "Options", "Output", "Request", "Response", "Result", "State",
        "Success", "URL", "Value",
    ]

    @Test func usesOfTypesAreFound() {
        let a = SwiftSource(
            """
            // Uses Other
            public struct A<T>: P { enum Kind { case one }
                func f() { print("Other \\(B.name("x", Inner()))", #"Third \\(Third())"#); _ = /* Other */ Outer.Kind.one }
            }
            extension Outer.Inner { class func g() {} ; final class Deep {} }
            """
        )
        let deep = [("A", nil), ("Kind", "A"), ("Deep", "Inner")].map(SwiftSource.Declaration.init)
        #expect(a.declarations == Set(deep))
        #expect(a.words == ["A", "T", "P", "Kind", "B", "Inner", "Outer", "Deep"])
        #expect(a.members == ["Outer.Kind", "Outer.Inner"])
        let b = SwiftSource("enum B {}\nstruct Outer { enum Kind {} }\nstruct Q { let a: A }")
        let needs = Self.needs(among: [("M/x/a.swift", "M/x", a), ("M/y/b.swift", "M/y", b)])
        #expect(needs[["M/x", "M/y"]] == ["B in a.swift", "Outer in a.swift", "Outer.Kind in a.swift"])
        #expect(needs[["M/y", "M/x"]] == ["A in b.swift"])
    }

    @Test func noModuleIsTooLarge() {
        let all = Self.files.reduce(0) { $0 + $1.lines }
        #expect(all > 10_000)
        for (module, files) in Dictionary(grouping: Self.files, by: \.module) {
            let lines = files.reduce(0) { $0 + $1.lines }
            #expect(lines * 100 <= all * 30, "\(module) has \(lines) of \(all) lines")
        }
    }

    /// Small types are beside the type that they serve.
    @Test func fewFilesAreSmall() {
        let small = Self.files.filter { $0.lines <= 30 }.map(\.path)
        #expect(small.count <= 40, "\(small.joined(separator: "\n"))")
    }
}
