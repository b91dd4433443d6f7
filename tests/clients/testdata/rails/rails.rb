# As much of Rails as the page calls, over the program mariadb: no gem is needed.

Encoding.default_external = Encoding::UTF_8 # as Rails has it, whatever the locale says

require "logger"
require "open3"

module Rails
  def self.logger
    @logger ||= Logger.new($stderr, formatter: ->(_, _, _, text) { "#{text}\n" })
  end
end

# One connection, which a transaction lends to what is in it.
module Database
  class << self
    def run(statement)
      if @statements
        @statements << statement
        []
      else
        ask([statement])
      end
    end

    # Runs what the block says in one transaction, and afterwards what is to follow COMMIT.
    def transaction
      @statements, @committed = [], []
      yield
      statements, committed, @statements = @statements, @committed, nil
      rows = ask(["START TRANSACTION", *statements, "COMMIT"])
      committed.zip(rows) { |call, (id)| call.call(id.to_i) }
    ensure
      @statements = nil
    end

    def after_commit(&call)
      @committed << call
    end

    def quoted(value)
      "'" + value.to_s.gsub(/[\\']/) { |c| "\\" + c } + "'"
    end

    private

    def ask(statements)
      env = ENV.to_h.slice("PATH").merge("MYSQL_PWD" => ENV.fetch("APP_PASSWORD"))
      out, told, ended = Open3.capture3(env, "mariadb", "--no-defaults", "--protocol=tcp", "--default-character-set=utf8mb4", "-NB",
        "-h", ENV.fetch("APP_HOST"), "-P", ENV.fetch("APP_PORT"), "-u", ENV.fetch("APP_USER"), ENV.fetch("APP_DATABASE"),
        stdin_data: statements.join(";\n") + ";\n")
      raise told unless ended.success?
      out.lines.map { |line| line.chomp.split("\t", -1) }
    end
  end
end

class ApplicationRecord
  class << self
    attr_reader :before, :after

    def before_create(&block) = (@before = block)
    def after_create_commit(method) = (@after = method)
    def transaction(&block) = Database.transaction(&block)

    def create!(**values)
      new(values).tap(&:insert)
    end

    def find(id)
      row = Database.run("SELECT target, payload FROM #{table} WHERE id = #{Integer(id)}").first
      new(target: row[0], payload: row[1], id: Integer(id))
    end

    def table = name.downcase + "s"
  end

  def initialize(values)
    @values = values
  end

  def insert
    instance_exec(&self.class.before) if self.class.before
    names, values = @values.keys, @values.values.map { |value| Database.quoted(value) }
    Database.run("INSERT INTO #{self.class.table} (#{names.join(', ')}) VALUES (#{values.join(', ')})")
    return unless self.class.after
    Database.run("SELECT LAST_INSERT_ID()")
    Database.after_commit do |id|
      @values[:id] = id
      puts "job #{id}"
      send(self.class.after)
    end
  end

  def method_missing(name, *args)
    if name.end_with?("=")
      @values[name.to_s.delete_suffix("=").to_sym] = args.first
    else
      @values.fetch(name) { super }
    end
  end

  def respond_to_missing?(name, _ = false) = name.end_with?("=") || @values.key?(name)
end

class Order < ApplicationRecord
end

require_relative "app/models/job"
